"""The examples run and print what they promise."""

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev

import matplotlib.pyplot as plt
import networkx as nx
import pytest

from helpers.examples import EXAMPLES, SCRIPTS, load

pytestmark = pytest.mark.slow
STAGE = EXAMPLES.parents[1] / "shared" / "tools" / "stage_tu_data.py"


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_page_of_each(path: Path) -> None:
    """A title with a line under it of its length, and how to call it."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False)
    assert text is not None
    title, line, empty = text.splitlines()[:3]
    assert line == len(title) * "="
    assert not empty
    assert f"examples/{path.name}" in text.split("Usage: ")[1]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_help_describes_each_argument(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    if path.stem == "tgp_classification":
        pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    if path.stem == "lightning_training":
        pytest.importorskip("lightning", reason="needs Lightning")
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(path), run_name="__main__")
    _, *entries = re.split(r"\n  (?=\S)", capsys.readouterr().out)
    assert entries
    for entry in entries:
        assert re.fullmatch(r"\S.*?\s{2,}\w.*", entry.strip(), flags=re.S), f"{entry} says nothing"


@pytest.mark.parametrize("value", ["0", "-1", "many"])
@pytest.mark.parametrize(
    "name", ["train", "rewiring", "graph_unet", "explain", "without_features", "ddp"]
)
def test_bad_numbers_are_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--epochs", value])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert value in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", ["les_miserables", "rewiring", "graph_unet", "explain"])
@pytest.mark.parametrize("picture", ["missing/picture.png", "picture.txt", "picture"])
def test_bad_pictures_are_refused(name: str, picture: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"--out must name a \.png, .*, got .*picture"):
        load(name)["main"](picture=str(tmp_path / picture))
    assert not list(tmp_path.iterdir())


def test_les_miserables(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    picture = tmp_path / "picture.png"
    example = load("les_miserables")
    members = example["main"](str(picture))
    assert sorted(name for part in members.values() for name in part) == sorted(
        nx.les_miserables_graph()
    )
    assert 2 <= len(members) <= example["CLUSTERS"]
    printed = capsys.readouterr().out
    assert "Valjean: " in printed
    inside, between = (
        float(printed.split(word)[0].split()[-1]) for word in (" inside a", " between two")
    )
    assert inside > 3 * between
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_rewiring(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    picture = tmp_path / "picture.png"
    example = load("rewiring")
    accuracy = example["main"](str(picture), epochs=20)
    assert [len(values) for values in accuracy.values()] == [5] * 4
    for given, similar in zip(accuracy["GCN"], accuracy["GCN, edges replaced"]):
        assert 1 / example["CLASSES"] < given < similar
    printed = capsys.readouterr().out
    for name, values in accuracy.items():
        assert f"{name}: {mean(values):.3f} ± {stdev(values):.3f}" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_no_picture_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load("les_miserables")["main"](steps=1)
    assert not list(tmp_path.iterdir())
    assert plt.get_fignums()  # for the pages, which show open figures


def test_recommend(capsys: pytest.CaptureFixture) -> None:
    hits = load("recommend")["main"]()
    assert hits["similar items"] > 1.2 * hits["most popular"] > 0.1
    printed = capsys.readouterr().out
    for name, rate in hits.items():
        assert f"{name}: {rate:.3f}" in printed


@pytest.mark.skipif(not STAGE.exists(), reason="needs the data sets in ../shared")
@pytest.mark.parametrize("name", ["ENZYMES"])
def test_train(tmp_path: Path, name: str, capsys: pytest.CaptureFixture) -> None:
    subprocess.run([sys.executable, str(STAGE), str(tmp_path), name], check=True)
    example = load("train")
    assert 0 <= example["main"](name, str(tmp_path), epochs=2) <= 1
    assert capsys.readouterr().out.count("epoch ") == 2


@pytest.mark.parametrize("pooler", ["sim", "simmatch"])
def test_tgp_classification(pooler: str, capsys: pytest.CaptureFixture) -> None:
    """Twelve epochs tell most graphs with hubs from those without."""
    pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    example = load("tgp_classification")
    assert example["main"](pooler, epochs=12) > 0.7
    assert capsys.readouterr().out.count("epoch ") == 12


def test_train_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric.datasets import TUDataset

    def download(self: TUDataset) -> None:
        raise OSError("no network")

    monkeypatch.setattr(TUDataset, "download", download)
    example = load("train")
    with pytest.raises(SystemExit, match=r"MUTAG is not in .* no network"):
        example["main"]("MUTAG", str(tmp_path))


def test_graph_unet(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """With pooling and `lift`, nodes learn of the mark of their ring."""
    picture = tmp_path / "picture.svg"
    accuracy = load("graph_unet")["main"](epochs=12, picture=str(picture))
    assert accuracy["U-Net"] > accuracy["without pooling"] + 0.1
    printed = capsys.readouterr().out
    for name, value in accuracy.items():
        assert f"{name}: accuracy on the rest {value:.3f}" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"picture.svg"}


def test_explain(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The motif is found by what was learned, not by the network as such."""
    picture = tmp_path / "picture.png"
    result = load("explain")["main"](picture=str(picture))
    assert result["accuracy"] > 0.8
    assert result["trained"] > 0.75 > 0.6 > result["untrained"]
    assert "one graph: cluster " in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}


def test_without_features(capsys: pytest.CaptureFixture) -> None:
    assert load("without_features")["main"](epochs=7) > 0.7
    assert capsys.readouterr().out.count("epoch ") == 7
