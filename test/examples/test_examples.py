"""The examples run, and reach the results that their pages describe."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import networkx as nx
import pytest
import torch
from torch_geometric.loader import DataLoader

from helpers.examples import EXAMPLES, SCRIPTS, load

pytestmark = pytest.mark.slow
STAGE = EXAMPLES.parents[1] / "shared" / "tools" / "stage_tu_data.py"


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_is_a_page(path: Path) -> None:
    """An example has a title, a line of equal length under it, and its usage."""
    text = str(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
    title, line = text.splitlines()[:2]
    assert line == len(title) * "="
    assert f"examples/{path.name}" in text.split("Usage: ")[1]


def test_les_miserables(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    picture = tmp_path / "picture.png"
    members = load("les_miserables")["main"](out=str(picture))
    names = sorted(name for cluster in members.values() for name in cluster)
    assert names == sorted(nx.les_miserables_graph())
    within, between = re.findall(
        r"similarity (\S+) within.* (\S+) between", capsys.readouterr()[0]
    )[0]
    assert float(within) > 3 * float(between)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_rewiring() -> None:
    example = load("rewiring")
    accuracies = example["main"](epochs=20)
    assert [len(values) for values in accuracies.values()] == [5] * 4
    for original, similar in zip(accuracies["GCN"], accuracies["GCN, edges replaced"]):
        assert 1 / example["CLASSES"] < original < similar


def test_recommend() -> None:
    hits = load("recommend")["main"]()
    popular, cosine, chosen = hits.values()
    assert chosen > cosine > popular > 0.1


def test_graph_unet() -> None:
    """With pooling and `lift`, nodes learn the mark of their ring."""
    accuracies = load("graph_unet")["main"](epochs=12)
    assert accuracies["U-Net"] > accuracies["without pooling"] + 0.1


def test_explain() -> None:
    """The motif stands out in the trained network only."""
    result = load("explain")["main"](epochs=15)
    assert result["test accuracy"] > 0.9
    assert result["score, trained"] > 0.75 > 0.65 > result["score, untrained"]


@pytest.mark.skipif(not STAGE.exists(), reason="needs the data sets in ../shared")
def test_train(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    subprocess.run([sys.executable, str(STAGE), str(tmp_path), "ENZYMES"], check=True)
    assert 0 <= load("train")["main"]("ENZYMES", str(tmp_path), cleaned=True, epochs=2) <= 1
    assert capsys.readouterr().out.count("epoch ") == 2


def test_train_names_the_folder_of_missing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(dataset: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torch_geometric.datasets.TUDataset.download", download)
    with pytest.raises(SystemExit, match=r"MUTAG is not in .*/MUTAG/raw_cleaned .* no network"):
        load("train")["main"]("MUTAG", str(tmp_path), cleaned=True)
    # PyG created the folder in the failed download.
    with pytest.raises(SystemExit, match=r"MUTAG/raw and .*: use --cleaned$"):
        load("train")["main"]("MUTAG", str(tmp_path))


@pytest.mark.parametrize("pooler", ["sim", "simmatch"])
def test_tgp_classification(pooler: str) -> None:
    pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    assert load("tgp_classification")["main"](pooler, epochs=12) > 0.7


def test_ddp() -> None:
    """Two processes print the metrics of one process; the number of test graphs is odd."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    metrics = []
    for processes in ("1", "2"):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*launcher, "--nproc-per-node", processes, str(EXAMPLES / "ddp.py"), "--epochs=2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        metrics.append([float(number) for number in re.findall(r"\d+\.\d+", done.stdout)])
    assert len(metrics[0]) == 4
    assert metrics[0] == pytest.approx(metrics[1], abs=2e-3)


def test_lightning_averages_over_graphs() -> None:
    lightning: Any = pytest.importorskip("lightning", reason="needs Lightning")
    module = load("lightning_training")["main"](epochs=1)
    module.eval()
    graphs = list(module.trainer.val_dataloaders.dataset)[:15]
    # There are two batches, of eight large and of seven small graphs.
    graphs.sort(key=lambda data: data.num_nodes, reverse=True)
    loader = DataLoader(graphs, batch_size=8)
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False
    )
    (metrics,) = trainer.validate(module, loader, verbose=False)
    total, correct = 0.0, 0
    with torch.no_grad():
        for data in loader:
            out = module.net(data.x, data.edge_index, data.batch, data.sim)
            total += float(out.loss(data.y)) * data.num_graphs
            correct += int((out.logits.argmax(dim=-1) == data.y).sum())
    assert metrics["val_accuracy"] == pytest.approx(correct / 15)
    assert metrics["val_loss"] == pytest.approx(total / 15, rel=1e-5)
