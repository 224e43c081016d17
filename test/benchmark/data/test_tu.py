import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import NormalizeFeatures

from harness.data import tu
from harness.data.graph_data import GraphData
from harness.data.load import load
from harness.data.structural import add_structural_features
from harness.errors import BenchmarkError
from helpers.traps import Trap, trap
from helpers.tu_files import NUM_GRAPHS, NUM_NODES, write_tu
from torch_geometric_simpool import StructuralSimilarity

STAGE = Path(__file__).parents[4] / "shared" / "tools" / "stage_tu_data.py"


def load_tiny(root: Path, node_features: str | None = None) -> GraphData:
    return load("TINY", str(root), False, node_features, 0)


@pytest.mark.parametrize(
    ("attributes", "asked", "resolved", "width"),
    [
        (True, None, "labels+attributes", 4),
        (True, "labels", "labels", 2),
        (False, None, "labels", 2),
    ],
)
def test_node_features(
    tmp_path: Path, attributes: bool, asked: str | None, resolved: str, width: int
) -> None:
    write_tu(tmp_path, attributes=attributes)
    data = load_tiny(tmp_path, asked)
    assert len(data.graphs) == NUM_GRAPHS
    assert (data.node_features, data.num_features) == (resolved, width)
    assert data.describe()["num_classes"] == 2
    assert data.describe()["mean_num_edges"] == pytest.approx(4.5)


def test_attributes_are_standardized_on_the_training_fold_alone(tmp_path: Path) -> None:
    write_tu(tmp_path)
    data = load_tiny(tmp_path)
    before = [graph.x.clone() for graph in data.graphs]
    train = np.arange(0, NUM_GRAPHS, 2)
    graphs = data.standardized(train)
    known = torch.cat([graphs[i].x for i in train])
    torch.testing.assert_close(known[:, :2].mean(0), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(known[:, :2].std(0, correction=0), torch.ones(2))
    # All graphs are scaled by the same numbers, and labels are not changed.
    raw, scaled = torch.cat(before), torch.cat([graph.x for graph in graphs])
    slope = (scaled[1:, 0] - scaled[0, 0]) / (raw[1:, 0] - raw[0, 0])
    torch.testing.assert_close(slope, slope[:1].expand_as(slope), rtol=1e-3, atol=1e-3)
    assert torch.equal(raw[:, 2:], scaled[:, 2:])
    assert all(torch.equal(graph.x, x) for graph, x in zip(data.graphs, before))


def test_attributes_that_are_not_there(tmp_path: Path) -> None:
    write_tu(tmp_path, attributes=False)
    with pytest.raises(BenchmarkError, match=r"--node-features.*TINY has no node attributes"):
        load_tiny(tmp_path, "labels+attributes")


def test_a_data_set_without_node_features_gets_a_constant(tmp_path: Path) -> None:
    raw = write_tu(tmp_path, attributes=False)
    (raw / "TINY_node_labels.txt").unlink()
    data = load_tiny(tmp_path)
    assert data.node_features == "constant"
    assert all(torch.equal(g.x, torch.ones(NUM_NODES, 1)) for g in data.graphs)


def test_structural_features_at_once_equal_those_of_each_graph(tmp_path: Path) -> None:
    write_tu(tmp_path)
    data = load_tiny(tmp_path)
    transform = StructuralSimilarity(3, alpha=0.8)
    add_structural_features(data.graphs, transform, at_once=5)
    assert all(torch.equal(graph.sim, transform(graph).sim) for graph in data.graphs)


DAMAGES = {
    "cut in a line": ("A", lambda text: text[: len(text) // 2].rstrip("\n"), "middle of a line"),
    "cut after a line": ("A", lambda text: "\n".join(text.split("\n")[:7]) + "\n", "one direction"),
    "not a number": ("A", lambda text: text.replace("2, 3", "2, x", 1), "'x'|could not convert"),
    "one column": ("A", lambda text: text.replace("1, 2", "1", 1), "columns"),
    "ends at a graph": ("A", lambda text: "".join(text.splitlines(True)[:26]), "last 9 graphs"),
    "loops at the end": (
        "A",
        lambda text: "".join(text.splitlines(True)[:26]) + "60, 60\n",
        "last 9 graphs, which have no edge, or self-loops alone",
    ),
    "only loops": ("A", lambda text: "60, 60\n", "last 12 graphs"),
    "between graphs": ("A", lambda text: text + "1, 6\n6, 1\n", "joins nodes of two graphs"),
    "blank line": ("A", lambda text: text + "\n", "blank"),
    "blank line inside": ("graph_labels", lambda text: text.replace("1", "1\n", 1), "blank"),
    "only a newline": ("graph_indicator", lambda text: "\n", "empty"),
    "two columns": ("graph_labels", lambda text: text.replace("\n", ", 1\n"), "hold 1 numbers"),
    "huge label": ("node_labels", lambda text: "999999999999" + text[1:], "span at most"),
    "nan": ("node_attributes", lambda text: "nan" + text[text.index(",") :], "NaN"),
    "too large": ("node_attributes", lambda text: "1e39" + text[text.index(",") :], "too large"),
    "id too large": ("A", lambda text: text.replace("1, 2", "1, 999", 1), "between 1 and 60.*999"),
    "id zero": ("A", lambda text: text.replace("1, 2", "0, 2", 1), "between 1 and 60.*got 0"),
    "empty": ("A", lambda text: "", "empty"),
    "web page": ("graph_labels", lambda text: "<html>404</html>\n", "could not convert|html"),
    "labels cut": ("graph_labels", lambda text: text[:4], "12 lines.*got 2"),
    "indicator cut": ("graph_indicator", lambda text: text[:20], "_A.txt|graph_labels"),
    "indicator unsorted": ("graph_indicator", lambda text: "2\n" + text[2:], "from 1"),
    "node labels cut": ("node_labels", lambda text: text[:20], "60 lines.*got 10"),
    "attributes cut": ("node_attributes", lambda text: text.split("\n")[0] + "\n", "60 lines"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_raw_files_are_named(tmp_path: Path, kind: str) -> None:
    part, damage, match = DAMAGES[kind]
    raw = write_tu(tmp_path)
    file = raw / f"TINY_{part}.txt"
    before = file.read_text()
    file.write_text(damage(before))
    assert file.read_text() != before
    with pytest.raises(BenchmarkError, match=match) as caught:
        load_tiny(tmp_path)
    assert "TINY_" in str(caught.value)
    assert "Delete it" in str(caught.value)
    assert not (tmp_path / "TINY" / "processed").exists()


def test_missing_raw_file_is_named(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    (raw / "TINY_graph_labels.txt").unlink()
    with pytest.raises(BenchmarkError, match=r"TINY_graph_labels\.txt is missing"):
        load_tiny(tmp_path)


def labels_of(data: GraphData) -> list[int]:
    return data.labels.tolist()


@pytest.mark.parametrize("part", ["graph_labels", "node_attributes", "A"])
def test_raw_files_that_changed_are_read_again(tmp_path: Path, part: str) -> None:
    """Also where the numbers of graphs, nodes and edges are as before."""
    raw = write_tu(tmp_path)
    before = load_tiny(tmp_path).describe()["checksum"]
    file = raw / f"TINY_{part}.txt"
    lines = file.read_text().splitlines()
    # Edges: all graphs lose one and get another, in both directions.
    moved = {"1, 2": "1, 3", "2, 1": "3, 1"}
    changed = [moved.get(line, line) for line in lines] if part == "A" else lines[::-1]
    assert changed != lines
    file.write_text("\n".join(changed) + "\n")
    assert load_tiny(tmp_path).describe()["checksum"] != before
    if part == "graph_labels":
        assert labels_of(load_tiny(tmp_path)) == [int(line) for line in changed]
    file.write_text("\n".join(lines) + "\n")
    assert load_tiny(tmp_path).describe()["checksum"] == before


def test_damaged_raw_files_are_noticed_after_a_load(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    load_tiny(tmp_path)
    (raw / "TINY_graph_labels.txt").write_text("1\n")
    with pytest.raises(BenchmarkError, match=r"12 lines.*got 1"):
        load_tiny(tmp_path)


def cache_of(root: Path) -> Path:
    return root / "TINY" / "processed" / "simpool.npz"


def changed_cache(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        arrays = dict(np.load(path))
        arrays[name] = change(arrays[name])
        np.savez(path, **arrays)

    return damage


def flipped(content: bytes) -> bytes:
    """With another byte in the first array."""
    return content[:200] + bytes([content[200] ^ 255]) + content[201:]


def no_graphs(path: Path) -> None:
    with np.load(path) as file:
        arrays = {name: array[..., :0] for name, array in file.items() if name == "edge_index"}
        arrays |= {name: file[name][:0] for name in ("x", "y")}
        arrays |= {name: file[name][:1] for name in ("node_slices", "edge_slices")}
        np.savez(path, **arrays, columns=file["columns"], checksum=file["checksum"])


CACHES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "empty": lambda path: path.write_bytes(b""),
    "one array": lambda path: np.save(path.open("wb"), np.zeros(3)),
    "a changed byte": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "edges to other graphs": changed_cache("edge_index", lambda edges: edges + 5),
    "edges before": changed_cache("edge_index", lambda edges: edges - 1),
    "floats": changed_cache("edge_index", lambda edges: edges.astype(float)),
    "slices": changed_cache("node_slices", lambda slices: slices[::-1]),
    "fewer labels": changed_cache("y", lambda y: y[1:]),
    "negative labels": changed_cache("y", lambda y: y - 1),
    "fewer nodes": changed_cache("x", lambda x: x[1:]),
    "other columns": changed_cache("columns", lambda columns: columns + 1),
    "columns as floats": changed_cache("columns", lambda columns: columns.astype(float)),
    "huge labels": changed_cache("y", lambda y: y + 10**12),
    "nan": changed_cache("x", lambda x: np.full_like(x, np.nan)),
    "no graphs": no_graphs,
}


@pytest.mark.parametrize("kind", CACHES)
def test_a_damaged_cache_is_made_again(tmp_path: Path, kind: str) -> None:
    write_tu(tmp_path)
    before = load_tiny(tmp_path).describe()
    CACHES[kind](cache_of(tmp_path))
    damaged = cache_of(tmp_path).read_bytes()
    assert load_tiny(tmp_path).describe() == before
    assert cache_of(tmp_path).read_bytes() != damaged


def test_the_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tu(tmp_path)
    first = load_tiny(tmp_path)
    monkeypatch.setattr(tu, "_read", None)
    second = load_tiny(tmp_path)
    assert first.describe() == second.describe()
    for one, other in zip(first.graphs, second.graphs):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one.keys())  # noqa: SIM118


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    write_tu(tmp_path)
    (tmp_path / "TINY" / "processed").write_text("mine")
    assert len(load_tiny(tmp_path).graphs) == NUM_GRAPHS
    assert (tmp_path / "TINY" / "processed").read_text() == "mine"


@pytest.mark.parametrize("cleaned", [False, True])
def test_nothing_in_the_root_is_executed(tmp_path: Path, cleaned: bool) -> None:
    """Not before there is a cache, and not afterwards."""
    suffix = "_cleaned" if cleaned else ""
    write_tu(tmp_path, folder=f"raw{suffix}")
    folder = tmp_path / "TINY" / f"processed{suffix}"
    names = ("data.pt", "pre_filter.pt", "pre_transform.pt", "simpool.npz")
    for _ in range(2):
        for name in names:
            trap(folder / name, tmp_path / "executed")
        assert len(load("TINY", str(tmp_path), cleaned, None, 0).graphs) == NUM_GRAPHS
    arrays = {**np.load(folder / "simpool.npz"), "x": np.array([Trap(tmp_path / "executed")])}
    np.savez(folder / "simpool.npz", **arrays)
    assert len(load("TINY", str(tmp_path), cleaned, None, 0).graphs) == NUM_GRAPHS
    assert not (tmp_path / "executed").exists()
    # What is PyG's stays as it was.
    assert all((folder / name).read_bytes()[:2] == b"PK" for name in names[:3])


@pytest.mark.parametrize("name", ["data.pt", "pre_filter.pt", "pre_transform.pt"])
def test_files_of_pyg_do_not_matter(tmp_path: Path, name: str) -> None:
    write_tu(tmp_path)
    (tmp_path / "TINY" / "processed").mkdir()
    (tmp_path / "TINY" / "processed" / name).write_bytes(b"")
    assert len(load_tiny(tmp_path).graphs) == NUM_GRAPHS


@pytest.mark.parametrize("attributes", [True, False])
def test_graphs_are_those_of_pyg(tmp_path: Path, attributes: bool) -> None:
    raw = write_tu(tmp_path, attributes=attributes)
    (raw / "TINY_edge_labels.txt").write_text(
        "".join(f"{i % 3}\n" for i in range(len((raw / "TINY_A.txt").read_text().splitlines())))
    )
    if not attributes:
        (raw / "TINY_node_labels.txt").unlink()
    theirs = TUDataset(str(tmp_path), "TINY", use_node_attr=True, use_edge_attr=True)
    ours = tu.load_tu("TINY", tmp_path, False)
    assert ours.num_classes == theirs.num_classes
    assert ours.num_node_attributes == theirs.num_node_attributes
    assert ours.num_node_labels == theirs.num_node_labels
    assert len(ours.graphs) == len(theirs)
    for one, other in zip(ours.graphs, theirs):
        assert one.num_nodes == other.num_nodes
        names = set(one.keys()) - {"num_nodes"}
        assert names == set(other.keys()) - {"num_nodes"}
        for name in names:
            assert torch.equal(one[name], other[name])
            assert one[name].dtype == other[name].dtype


def test_regression_data_is_refused(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    (raw / "TINY_graph_attributes.txt").write_text("0.5\n" * NUM_GRAPHS)
    with pytest.raises(BenchmarkError, match="regression"):
        load_tiny(tmp_path)


def test_the_checksum_tells_data_apart(tmp_path: Path) -> None:
    write_tu(tmp_path)
    one, other = load_tiny(tmp_path), load_tiny(tmp_path)
    assert one.describe() == other.describe()
    other.graphs[3].x[0, 0] += 1
    assert one.describe()["checksum"] != other.describe()["checksum"]
    # Edge features count as well, where there are some.
    for data in (one, other := load_tiny(tmp_path)):
        for graph in data.graphs:
            graph.edge_attr = torch.zeros(graph.num_edges, 2)
    assert one.describe() == other.describe()
    other.graphs[3].edge_attr[0, 0] += 1
    assert one.describe() != other.describe()


def test_data_that_something_else_has_changed(tmp_path: Path) -> None:
    """PyG's own file may hold other data; the raw files count."""
    write_tu(tmp_path)
    before = load_tiny(tmp_path).describe()
    cache_of(tmp_path).unlink()
    TUDataset(str(tmp_path), "TINY", pre_transform=NormalizeFeatures())
    assert load_tiny(tmp_path).describe() == before


def fail(self: TUDataset) -> None:
    # Like an interrupted download, it leaves half a file.
    Path(self.raw_dir).mkdir(parents=True, exist_ok=True)
    (Path(self.raw_dir) / "ENZYMES_A.txt").write_text("1, ")
    raise OSError("no network")


@pytest.mark.parametrize("exists", [True, False])
def test_no_network_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    monkeypatch.setattr(TUDataset, "download", fail)
    root = tmp_path / "some" / "data"
    if exists:
        root.mkdir(parents=True)
    with pytest.raises(BenchmarkError) as caught:
        load("ENZYMES", str(root), True, None, 0)
    message = str(caught.value)
    assert "no network" in message
    assert str(root / "ENZYMES" / "raw_cleaned") in message
    assert "ENZYMES_graph_indicator.txt" in message
    assert "Generated data sets need no files" in message
    assert root.exists() == root.parent.exists() == exists
    assert not list(tmp_path.rglob("*ENZYMES*"))


def test_a_download_is_moved_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(self: TUDataset) -> None:
        root = Path(self.root)
        (root / "TINY" / "raw").rmdir()
        write_tu(root)

    monkeypatch.setattr(TUDataset, "download", download)
    assert len(load_tiny(tmp_path).graphs) == NUM_GRAPHS
    assert {path.name for path in tmp_path.iterdir()} == {"TINY"}


@pytest.mark.parametrize("name", ["", "../ENZYMES", "a b", ".hidden", "A" * 5000])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(BenchmarkError, match="--dataset") as caught:
        load(name, str(tmp_path), False, None, 0)
    assert len(str(caught.value)) < 200


def test_generated_data_set_has_no_variants(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="--cleaned"):
        load("motifs", str(tmp_path), True, None, 0)
    with pytest.raises(BenchmarkError, match="--node-features"):
        load("motifs", str(tmp_path), False, "labels+attributes", 0)


@pytest.mark.skipif(not STAGE.exists(), reason="needs the data sets in ../shared")
@pytest.mark.parametrize(
    ("name", "cleaned", "expected"),
    [
        ("ENZYMES", True, (595, 32.48, 62.17, 6, 21, None)),
        ("MUTAG", True, (135, 18.85, 20.84, 2, 7, 4)),
    ],
)
def test_real_data_sets(tmp_path: Path, name: str, cleaned: bool, expected: tuple) -> None:
    subprocess.run([sys.executable, str(STAGE), str(tmp_path), name], check=True)
    described = load(name, str(tmp_path), cleaned, None, 0).describe()
    assert tuple(described.values())[1:7] == pytest.approx(expected, abs=0.01)
