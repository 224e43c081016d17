"""The README's Python runs as it stands there, its commands exist, and numbers are those stored."""

import functools
import json
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from harness.speed.pool_tables import tables
from harness.speed.topk_tables import summary

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEED = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
COMPILE = (ROOT / "docs" / "compile.md").read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"```python\n(.*?)```", page, flags=re.S)


BLOCKS = blocks(README)


@pytest.fixture
def dataset() -> list[Data]:
    torch.manual_seed(0)
    graphs = []
    for label in (0, 1, 0, 1):
        one_way = torch.randint(0, 12, (2, 20))
        edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
        graphs.append(Data(x=torch.randn(12, 3), edge_index=edge_index, y=torch.tensor([label])))
    return graphs


def test_there_is_python() -> None:
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_python(block: str, dataset: list[Data]) -> None:
    # A block may use a data set as PyG loads it, its width and number of classes.
    names = {"dataset": dataset, "num_features": 3, "num_classes": 2}
    exec(compile(block, "README.md", "exec"), names)


def test_python_of_the_page_on_compiling(
    dataset: list[Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks follow each other. With a backend that needs no compiler of C++."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    names = {"dataset": dataset, "num_features": 3, "num_classes": 2}
    for block in blocks(COMPILE):
        exec(compile(block, "docs/compile.md", "exec"), names)
    eager, given = names["net"], names["given"]
    assert isinstance(eager, torch.nn.Module)
    expected = eager(*given[:4], batch_size=2).logits  # type: ignore[index]
    torch.testing.assert_close(names["logits"], expected)


def test_files_that_are_named_exist() -> None:
    folders = "benchmark|docs|examples|test|torch_geometric_simpool"
    named = set(re.findall(rf"(?:\]\(|python )((?:{folders})/[\w./-]+|\w+\.md)", README))
    assert named
    missing = {name for name in named if not (ROOT / name).exists()}
    assert not missing


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmark/results/*/results.json")), ids=str)
def test_accuracies_are_those_of_the_stored_results(path: Path) -> None:
    results = json.loads(path.read_text())
    best = [fold["best_val_accuracy"] for fold in results["folds"]]
    row = next(
        line
        for line in README.splitlines()
        if line.startswith("|") and str(path.relative_to(ROOT)) in line
    )
    if len(best) > 1:
        assert f"{results['mean']:.3f} ± {results['std']:.3f} | {min(best):.3f}" in row
    else:
        assert f"{best[0]:.4f} in epoch {results['folds'][0]['best_epoch']}" in row
    assert results["mean"] == pytest.approx(sum(best) / len(best))


def test_a_page_is_enough() -> None:
    assert len(README.splitlines()) <= 170


def test_rows_of_speed_are_those_of_the_stored_results() -> None:
    rows = tables(ROOT / "benchmark" / "results" / "pooling")
    for name in ("topk.json", "topk_rows.json"):
        rows += summary(json.loads((ROOT / "benchmark" / "results" / name).read_text()))
    assert not set(rows) - set(SPEED.splitlines())
    _, speed = README.split("## Speed")
    shown = [line for line in speed.splitlines() if line.startswith("| ")]
    assert len([line for line in shown if line in rows]) == 5


def test_accuracies_of_the_study_are_those_of_the_report() -> None:
    """Of ten folds each, so that they stay when more is run."""
    results = (ROOT / "benchmark" / "RESULTS.md").read_text(encoding="utf-8")
    (header,) = (line for line in README.splitlines() if line.startswith("| protocol | graphs |"))
    methods = [cell.strip(" `") for cell in header.split("|")[3:-2]]
    (summary,) = re.findall(r"\n\| \| ENZYMES, paper \|.*?\n\n", results, flags=re.S)
    shown = {
        row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]]
        for row in summary.strip().splitlines()[2:]
    }
    columns = {"ENZYMES cleaned": 0, "ENZYMES": 1, "D&D cleaned": 2, "D&D": 3}
    found = 0
    for line in README.splitlines():
        if not line.startswith(("| paper: ", "| nested: ")):
            continue
        graphs, *accuracies = (cell.strip() for cell in line.split("|")[2:-2])
        for method, accuracy in zip(methods, accuracies, strict=True):
            if accuracy:
                assert shown[method][columns[graphs.split(",")[0]]] == accuracy
                found += 1
    assert found == 10
