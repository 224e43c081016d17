"""The examples run and print what they promise."""

import runpy
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
STAGE = ROOT.parent / "shared" / "tools" / "stage_tu_data.py"


def test_les_miserables(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    picture = tmp_path / "picture.png"
    example = runpy.run_path(str(EXAMPLES / "les_miserables.py"))
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
    example = runpy.run_path(str(EXAMPLES / "rewiring.py"))
    accuracy = example["main"](str(picture), epochs=20)
    assert [len(values) for values in accuracy.values()] == [5] * 4
    for given, similar in zip(accuracy["GCN"], accuracy["GCN, edges replaced"]):
        assert 1 / example["CLASSES"] < given < similar
    printed = capsys.readouterr().out
    for name, values in accuracy.items():
        assert f"{name}: {mean(values):.3f} ± {stdev(values):.3f}" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_rewiring_says_what_is_missing(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "rewiring.py"))
    with pytest.raises(SystemExit, match="folder of the picture must exist"):
        example["main"](str(tmp_path / "missing" / "picture.png"))


def test_recommend(capsys: pytest.CaptureFixture) -> None:
    hits = runpy.run_path(str(EXAMPLES / "recommend.py"))["main"]()
    assert hits["similar items"] > 1.2 * hits["most popular"] > 0.1
    printed = capsys.readouterr().out
    for name, rate in hits.items():
        assert f"{name}: {rate:.3f}" in printed


@pytest.mark.skipif(not STAGE.exists(), reason="needs the data sets in ../shared")
@pytest.mark.parametrize("name", ["ENZYMES"])
def test_train(tmp_path: Path, name: str, capsys: pytest.CaptureFixture) -> None:
    subprocess.run([sys.executable, str(STAGE), str(tmp_path), name], check=True)
    example = runpy.run_path(str(EXAMPLES / "train.py"))
    assert 0 <= example["main"](name, str(tmp_path), epochs=2) <= 1
    assert capsys.readouterr().out.count("epoch ") == 2


@pytest.mark.parametrize("pooler", ["sim", "simmatch"])
def test_tgp_classification(pooler: str, capsys: pytest.CaptureFixture) -> None:
    """Twelve epochs tell most graphs with hubs from those without."""
    pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    example = runpy.run_path(str(EXAMPLES / "tgp_classification.py"))
    assert example["main"](pooler, epochs=12) > 0.7
    assert capsys.readouterr().out.count("epoch ") == 12


def test_train_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric.datasets import TUDataset

    def download(self: TUDataset) -> None:
        raise OSError("no network")

    monkeypatch.setattr(TUDataset, "download", download)
    example = runpy.run_path(str(EXAMPLES / "train.py"))
    with pytest.raises(SystemExit, match=r"MUTAG is not in .* no network"):
        example["main"]("MUTAG", str(tmp_path))
