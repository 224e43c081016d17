"""`precompute(out=...)` writes a whole data set to disk, and goes on where it was stopped."""

import os
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
import torch_geometric.transforms as T
from torch_geometric import EdgeIndex
from torch_geometric import data as pyg
from torch_geometric.data import Batch, Data, SQLiteDatabase
from torch_geometric.loader import DataLoader

from helpers.data_sets import InMemory, assert_same_as_one_by_one, graphs_of_all_flavors
from helpers.graphs import draw
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms import on_disk as on_disk_module
from torch_geometric_simpool.transforms import stream

ROOT = Path(__file__).parents[2]
TRANSFORM = StructuralSimilarity(4)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three graphs."""
    monkeypatch.setattr(stream, "CHUNK_BYTES", 3 * stream.OBJECT_BYTES)


def numbered(count: int) -> list[Data]:
    return [draw("directed", seed).data(y=torch.tensor([seed])) for seed in range(count)]


def precompute(dataset: Any, out: Any, transform: StructuralSimilarity = TRANSFORM) -> Any:
    return transform.precompute(dataset, progress=False, out=out)


def stopping(graphs: list[Data], number: int, error: BaseException) -> Iterator[Data]:
    """Raises in place of a graph."""
    yield from graphs[:number]
    raise error


class Sized(list):
    """A list of graphs whose loop fails at one of them."""

    def __init__(self, graphs: list[Data], number: int, error: BaseException) -> None:
        super().__init__(graphs)
        self.number, self.error = number, error

    def __getitem__(self, i: Any) -> Any:
        if i == self.number:
            raise self.error
        return super().__getitem__(i)


def on_disk(folder: Path, graphs: list[Data], transform: Any = None) -> pyg.OnDiskDataset:
    dataset = pyg.OnDiskDataset(str(folder), transform)
    dataset.extend(graphs)
    return dataset


def numbers(dataset: Any) -> list[int]:
    return [data.y.item() for data in dataset]


# ------------------------------------------------------------------ results


def test_is_the_transform_graph_by_graph(tmp_path: Path) -> None:
    graphs = graphs_of_all_flavors()
    done = precompute(graphs, tmp_path / "a" / "b")
    assert_same_as_one_by_one(TRANSFORM, graphs, done)
    assert repr(done) == f"OnDiskDataset({len(graphs)})"
    assert_same_as_one_by_one(TRANSFORM, graphs, pyg.OnDiskDataset(str(tmp_path / "a" / "b")))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "a" / "b" / "processed" / "sqlite.db"]


@pytest.mark.parametrize("kind", ["generator", "subset", "in memory", "on disk"])
def test_any_data_set(kind: str, tmp_path: Path) -> None:
    graphs = numbered(9)
    make: dict[str, Callable[[], Any]] = {
        "generator": lambda: iter(graphs),
        "subset": lambda: torch.utils.data.Subset(graphs, range(9)),  # type: ignore[arg-type]
        "in memory": lambda: InMemory(graphs),
        "on disk": lambda: on_disk(tmp_path / "in", graphs),
    }
    done = precompute(make[kind](), str(tmp_path / "out"))
    assert isinstance(done, pyg.OnDiskDataset)
    assert_same_as_one_by_one(TRANSFORM, graphs, done)


def test_all_kinds_of_objects(tmp_path: Path) -> None:
    plain = numbered(2)
    graphs = [
        T.ToSparseTensor(layout=torch.sparse_csr)(plain[0].clone()),
        T.ToDense(12)(plain[1].clone()),
        Batch.from_data_list(plain),
    ]
    done = precompute(graphs, tmp_path)
    assert_same_as_one_by_one(TRANSFORM, graphs, done)
    assert [type(data) for data in done] == [type(data) for data in graphs]


def test_nothing_is_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        assert len(precompute([], tmp_path)) == 0
        assert len(precompute(iter([]), tmp_path)) == 0


def test_views_are_stored_without_what_they_are_views_of(tmp_path: Path) -> None:
    """The graphs of a data set in memory are views of its storage."""
    dataset = InMemory([Data(x=torch.zeros(10, 100), edge_index=torch.zeros(2, 0).long())] * 50)
    assert dataset[7].x.untyped_storage().nbytes() == 50 * 4000
    done = precompute(dataset, tmp_path)
    assert done[7].x.untyped_storage().nbytes() == 4000
    assert (tmp_path / "processed" / "sqlite.db").stat().st_size < 50 * 10_000


def test_a_transform_of_the_data_set_stays_in_place(tmp_path: Path) -> None:
    """Of every PyG data set: it is not applied before, but to the result."""
    graphs = numbered(5)

    def note(data: Data) -> Data:
        data.noted = "sim" in data
        return data

    datasets: dict[str, Any] = {
        "memory": InMemory(graphs, note),
        "disk": on_disk(tmp_path / "in", graphs, note),
    }
    for kind, dataset in datasets.items():
        done = precompute(dataset, tmp_path / kind)
        assert done.transform is note
        assert done[3].noted is True
        assert "noted" not in done.get(3)
        assert torch.equal(done[3].sim, TRANSFORM(graphs[3]).sim)


# ------------------------------------------------------------------ parts of data sets on disk


def test_pyg_loads_a_part_of_a_data_set_on_disk_wrongly(tmp_path: Path) -> None:
    """If this fails, PyG has been corrected: our `OnDiskDataset` and the warning can go."""
    part = on_disk(tmp_path, numbered(6))[3:]
    assert numbers(part) == [3, 4, 5]
    loaded = [batch.y.tolist() for batch in DataLoader(part, batch_size=2)]
    assert loaded == [[0, 1], [2]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_part_of_the_result_is_loaded_correctly(workers: int, tmp_path: Path) -> None:
    done = precompute(numbered(9), tmp_path)
    for part in (done[5:], done[[8, 2, 2]][1:], done.shuffle(), done):
        loaded = [y for b in DataLoader(part, batch_size=2, num_workers=workers) for y in b.y]
        assert loaded == numbers(part)
    whole = pyg.OnDiskDataset(str(tmp_path))
    workaround = torch.utils.data.Subset(whole, [5, 7, 6])
    loaded = [y for b in DataLoader(workaround, batch_size=2, num_workers=workers) for y in b.y]
    assert loaded == [5, 7, 6]


def test_a_part_is_read_correctly_with_a_warning(tmp_path: Path) -> None:
    graphs = numbered(9)
    part = on_disk(tmp_path / "in", graphs)[[7, 2, 5, 5, 0]]
    for number, call in enumerate(
        (
            lambda: precompute(part, tmp_path / "out"),
            lambda: TRANSFORM.precompute(part, progress=False),
            lambda: TRANSFORM.stream(part, progress=False),
        )
    ):
        with pytest.warns(UserWarning, match=r"`dataset` is a part .*Subset") as found:
            done = call()
        assert_same_as_one_by_one(TRANSFORM, [graphs[i] for i in (7, 2, 5, 5, 0)], done)
        assert number == 0 or found[0].filename == __file__


def test_no_warning_without_a_reason(tmp_path: Path) -> None:
    graphs = numbered(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precompute(on_disk(tmp_path / "in", graphs), tmp_path / "out")
        done = precompute(InMemory(graphs)[1:], tmp_path / "part")
        precompute(done[1:], tmp_path / "ours")


# ------------------------------------------------------------------ stopped runs


def same_graphs(done: Any, expected: Any) -> bool:
    return len(done) == len(expected) and all(
        set(a.keys()) == set(b.keys())
        and all(torch.equal(v, b[key]) for key, v in a.to_dict().items() if torch.is_tensor(v))
        for a, b in zip(done, expected)
    )


PROGRAM = """
import os, signal, sys
import torch
from torch_geometric.data import SQLiteDatabase
from helpers.data_sets import graphs_of_all_flavors
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms import stream

torch.set_num_threads(1)
stream.CHUNK_BYTES = 3 * stream.OBJECT_BYTES
out, where, number = sys.argv[1], sys.argv[2], int(sys.argv[3])

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def graphs():
    for i, data in enumerate(graphs_of_all_flavors()):
        if where == "reading" and i == number:
            kill()
        yield data

insert = SQLiteDatabase.multi_insert

def killed_insert(self, indices, *rest):
    if indices[0] == number:
        # Graphs are in the file before the transaction ends.
        self.connection.execute("PRAGMA cache_size = 1")
        size = os.path.getsize(self.path)
        grown = lambda: kill() if os.path.getsize(self.path) > size else 0
        self.connection.set_progress_handler(grown, 1)
    insert(self, indices, *rest)

if where == "writing":
    SQLiteDatabase.multi_insert = killed_insert
replace = os.replace  # what Numba calls as well, for its cache
if where == "renaming":
    os.replace = lambda *paths: kill() if str(out) in str(paths[1]) else replace(*paths)
StructuralSimilarity(4).precompute(graphs(), progress=False, out=out)
"""


@pytest.mark.parametrize("where", ["reading", "writing", "renaming"])
def test_a_killed_run_goes_on(where: str, tmp_path: Path) -> None:
    """The result is that of a run that was not killed, bit for bit."""
    graphs = graphs_of_all_flavors()
    path = os.pathsep.join([str(ROOT), str(ROOT / "test")])
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out"), where, "12"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    files = {path.name for path in (tmp_path / "out" / "processed").iterdir()}
    assert "unfinished.db" in files
    assert "sqlite.db" not in files
    expected = precompute(graphs, tmp_path / "expected")
    file = tmp_path / "out" / "processed" / "unfinished.db"
    size = file.stat().st_size
    stored = stored_so_far(tmp_path / "out")
    assert (file.stat().st_size < size) == (where == "writing")  # what was half written is gone
    assert same_graphs(stored, [expected[i] for i in range(len(stored))])
    assert len(stored) == (len(graphs) if where == "renaming" else 12)
    done = precompute(iter(graphs), tmp_path / "out")
    assert same_graphs(done, expected)
    assert not file.exists()


def stored_so_far(out: Path) -> list[Data]:
    database = SQLiteDatabase(str(out / "processed" / "unfinished.db"), "OnDiskDataset")
    found = [database.get(i) for i in range(len(database))]
    database.close()
    return found


@pytest.mark.parametrize("sized", [True, False])
def test_an_interrupted_run_goes_on(sized: bool, tmp_path: Path) -> None:
    """And computes what is missing alone."""
    graphs, computed = numbered(20), []

    class Counting(StructuralSimilarity):
        def features(self, graphs: Any) -> torch.Tensor:
            computed.append(graphs.num_graphs)
            return super().features(graphs)

    transform, stop = Counting(4), KeyboardInterrupt()
    first = Sized(graphs, 13, stop) if sized else stopping(graphs, 13, stop)
    with pytest.raises(KeyboardInterrupt):
        precompute(first, tmp_path, transform)
    assert sum(computed) == len(stored_so_far(tmp_path)) == 12
    done = precompute(graphs if sized else iter(graphs), tmp_path, transform)
    assert sum(computed) == 21  # and the last one that was stored, to compare
    assert same_graphs(done, precompute(graphs, tmp_path / "expected"))
    precompute(graphs, tmp_path, transform)
    assert sum(computed) == 22


def test_after_an_error_in_a_graph_it_goes_on(tmp_path: Path) -> None:
    graphs = numbered(20)
    right, graphs[13].edge_index = graphs[13].edge_index, graphs[13].edge_index + 100
    with pytest.raises(ValueError, match="graph 13 of `dataset`: `edge_index`"):
        precompute(graphs, tmp_path)
    with pytest.raises(ValueError, match="graph 13 of `dataset`: `edge_index`"):
        precompute(graphs, tmp_path)
    graphs[13].edge_index = right
    assert_same_as_one_by_one(TRANSFORM, graphs, precompute(graphs, tmp_path))


def test_an_unfinished_run_is_not_read_as_a_whole(tmp_path: Path) -> None:
    """PyG makes an empty file, which is in nobody's way."""
    graphs = numbered(20)
    with pytest.raises(KeyboardInterrupt):
        precompute(Sized(graphs, 13, KeyboardInterrupt()), tmp_path)
    opened = pyg.OnDiskDataset(str(tmp_path))
    assert len(opened) == 0
    opened.close()
    assert (tmp_path / "processed" / "sqlite.db").exists()
    assert_same_as_one_by_one(TRANSFORM, graphs, precompute(graphs, tmp_path))


def test_the_progress_bar_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    graphs = numbered(20)
    with pytest.raises(KeyboardInterrupt):
        precompute(Sized(graphs, 13, KeyboardInterrupt()), tmp_path)
    said = capsys.readouterr()
    assert said.out == said.err == ""
    TRANSFORM.precompute(graphs, out=tmp_path)
    said = capsys.readouterr()
    assert said.out == ""
    assert "60%" in said.err
    assert "20/20" in said.err


# ------------------------------------------------------------------ errors

FINISHED_OR_NOT = pytest.mark.parametrize("finished", [True, False])


def run(out: Path, graphs: list[Data], finished: bool) -> dict[str, bytes]:
    """A run in a folder; returns the files."""
    if finished:
        precompute(graphs, out).close()
    else:
        with pytest.raises(KeyboardInterrupt):
            precompute(Sized(graphs, 13, KeyboardInterrupt()), out)
    return contents(out)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@FINISHED_OR_NOT
def test_a_folder_of_another_transform(finished: bool, tmp_path: Path) -> None:
    graphs = numbered(20)
    before = run(tmp_path, graphs, finished)
    with pytest.raises(ValueError, match=r"`out` must .*k=4, .*k=5, "):
        precompute(graphs, tmp_path, StructuralSimilarity(5))
    assert contents(tmp_path) == before


@FINISHED_OR_NOT
@pytest.mark.parametrize("count", [0, 1, 10, 19, 21])
@pytest.mark.parametrize("sized", [True, False])
def test_a_folder_of_another_number_of_graphs(
    sized: bool, count: int, finished: bool, tmp_path: Path
) -> None:
    before = run(tmp_path, numbered(20), finished)
    other = numbered(count)
    if not sized and count >= 13 and not finished:
        return  # neither the run nor an iterable says how many there are
    with pytest.raises(ValueError, match=r"`dataset` must have (at least )?the (12|20) graphs"):
        precompute(other if sized else iter(other), tmp_path)
    assert contents(tmp_path) == before


@FINISHED_OR_NOT
@pytest.mark.parametrize("sized", [True, False])
def test_a_folder_of_other_graphs(sized: bool, finished: bool, tmp_path: Path) -> None:
    graphs = numbered(20)
    before = run(tmp_path, graphs, finished)
    other = graphs[::-1]
    with pytest.raises(ValueError, match=r"`dataset` must be that of the run .*graph (11|19) "):
        precompute(other if sized else iter(other), tmp_path)
    assert contents(tmp_path) == before


@FINISHED_OR_NOT
@pytest.mark.parametrize(
    "changed",
    [
        {"x": torch.zeros(3, 2)},
        {"x": torch.ones(3, 1)},
        {"x": torch.ones(3, 2, dtype=torch.float64)},
        {"x": None},
        {"y": torch.tensor([2])},
        {"time": torch.tensor([1_700_000_001])},
        {"edge_weight": torch.ones(4)},
    ],
)
def test_other_tensors_of_the_last_graph(changed: Any, finished: bool, tmp_path: Path) -> None:
    def graph(**more: Any) -> Data:
        edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        x = torch.tensor([[1, 1], [1, 1], [1, float("nan")]])
        made = {"x": x, "edge_index": edge_index, "y": torch.tensor([1]), "num_nodes": 3}
        made["time"], made["narrow"] = torch.tensor([1_700_000_000]), torch.ones(1).bfloat16()
        return Data(**{**made, **more})

    same, other = [graph() for _ in range(20)], [graph(**changed) for _ in range(20)]
    before = run(tmp_path, same, finished)
    (name,) = changed
    with pytest.raises(ValueError, match=rf"`dataset` .*graph (11|19) has another {name} than is"):
        precompute(other, tmp_path)
    assert contents(tmp_path) == before
    assert len(precompute(same, tmp_path)) == 20


def test_tensors_of_any_kind_are_compared_or_left_out(tmp_path: Path) -> None:
    def graph() -> Data:
        data = draw("directed", 0).data(y=torch.arange(19.0).view(1, 19)[:, 3])
        data.imaginary = torch.ones(2, dtype=torch.complex64).conj().imag
        data.nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)])
        data.jagged = torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)
        data.sparse = torch.ones(2, 2).to_sparse()
        data.quantized = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
        data.nowhere, data.none = torch.empty(3, device="meta"), torch.empty(0, 2)
        data.index, data.scalar = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2)), torch.tensor(1)
        return data

    precompute([graph()], tmp_path).close()
    assert len(precompute([graph()], tmp_path)) == 1


@FINISHED_OR_NOT
def test_random_numbers_differ_when_they_are_drawn_again(finished: bool, tmp_path: Path) -> None:
    random = StructuralSimilarity(4, order="random")
    stop = None if finished else KeyboardInterrupt()
    with nullcontext() if finished else pytest.raises(KeyboardInterrupt):
        graphs = numbered(20) if stop is None else Sized(numbered(20), 13, stop)
        precompute(graphs, tmp_path, random)
    assert numbers(precompute(numbered(20), tmp_path, random)) == list(range(20))


@pytest.mark.parametrize("there", ["a.txt", ".hidden", "raw/a.txt", "processed/a.txt"])
def test_a_folder_that_holds_something_else(there: str, tmp_path: Path) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"`out` must be a new or empty folder") as info:
        precompute(numbered(2), tmp_path)
    assert str(tmp_path) in str(info.value)
    assert there.split("/")[0] in str(info.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["data set", "own class", "no database"])
def test_a_folder_of_another_data_set(kind: str, tmp_path: Path) -> None:
    class Mine(pyg.OnDiskDataset):
        pass

    if kind == "no database":
        (tmp_path / "processed").mkdir()
        (tmp_path / "processed" / "sqlite.db").write_text("x" * 1000)
    else:
        mine = (Mine if kind == "own class" else pyg.OnDiskDataset)(str(tmp_path))
        mine.extend(numbered(2))
        mine.close()
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"`out` must be a .*folder"):
        precompute(numbered(2), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["sqlite.db", "unfinished.db"])
def test_a_damaged_file(name: str, tmp_path: Path) -> None:
    run(tmp_path, numbered(20), name == "sqlite.db")
    (tmp_path / "processed" / name).write_text("x" * 1000)
    with pytest.raises(ValueError, match=r"`out` must .*not a database"):
        precompute(numbered(20), tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="`out` must be a folder, got the file"):
        precompute(numbered(2), tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        precompute(numbered(2), tmp_path / "file" / "below")
    with pytest.raises(TypeError, match="`out` must be a path or None, got 3 of type int"):
        precompute(numbered(2), 3)
    with pytest.raises(TypeError, match="`dataset`"):
        precompute(None, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("before_it_opens_a_file", [True, False])
def test_another_process_finishes_while_this_one_waits(
    before_it_opens_a_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here before this one asks for the lock."""

    class Late(SQLiteDatabase):
        def __init__(self, path: str, name: str) -> None:
            super().__init__(path, name)
            os.replace(path, Path(path).with_name("sqlite.db"))

    class New(SQLiteDatabase):
        def __init__(self, path: str, name: str) -> None:
            monkeypatch.undo()
            run(tmp_path, numbered(20), finished=True)
            super().__init__(path, name)

    if before_it_opens_a_file:
        monkeypatch.setattr(on_disk_module, "SQLiteDatabase", New)
    else:
        run(tmp_path, numbered(20), finished=False)
        monkeypatch.setattr(on_disk_module, "SQLiteDatabase", Late)
    with pytest.raises(OSError, match=r"`out` must not be in use, .* has just finished"):
        precompute(numbered(20), tmp_path)
    assert [path.name for path in (tmp_path / "processed").iterdir()] == ["sqlite.db"]


def test_another_process_renames_the_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def late(source: Path, target: Path) -> None:
        replace(source, target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    assert numbers(precompute(numbered(9), tmp_path)) == list(range(9))


def test_a_folder_that_another_process_writes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the run inside the run."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    graphs = numbered(9)

    def once_more() -> Iterator[Data]:
        yield from graphs[:5]
        with pytest.raises(OSError, match="`out` must not be in use"):
            precompute(iter(graphs), tmp_path)
        yield from graphs[5:]

    assert_same_as_one_by_one(TRANSFORM, graphs, precompute(once_more(), tmp_path))


@pytest.mark.parametrize("sized", [True, False])
def test_a_full_disk(sized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written stays, and the run goes on when there is room."""
    graphs = numbered(30)
    connect, pages = SQLiteDatabase.connect, 15

    def connect_full(database: SQLiteDatabase) -> None:
        connect(database)
        database.connection.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(SQLiteDatabase, "connect", connect_full)
    more = r"about \d+\.\d KiB more" if sized else "all graphs"
    for _ in range(2):
        with pytest.raises(OSError, match=f"`out` must have room for {more}, got .* free"):
            precompute(graphs if sized else iter(graphs), tmp_path)
        pages = 30
    monkeypatch.undo()
    stored = stored_so_far(tmp_path)
    assert 0 < len(stored) < 30
    assert_same_as_one_by_one(TRANSFORM, graphs[: len(stored)], stored)
    done = precompute(graphs, tmp_path)
    assert_same_as_one_by_one(TRANSFORM, graphs, done)
