"""The README is one page, and its numbers are those stored. `docs/test_snippets.py` runs it."""

import json
import re
from pathlib import Path

import pytest

from harness.speed.pool_tables import tables
from harness.speed.topk_tables import summary

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEED, CHECKS = (
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("speed", "checks")
)


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
    assert not set(rows) - set(SPEED.splitlines()) - set(CHECKS.splitlines())
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
    assert found == 14


def test_p_values_are_beside_an_accuracy_or_difference_of_their_row() -> None:
    results = (ROOT / "benchmark" / "RESULTS.md").read_text(encoding="utf-8")
    text, p = " ".join(README.split()), r"p [<=] 0\.\d{3}"
    pairs = re.findall(rf"(\d\.\d{{2,4}})(?=\D{{0,40}}?({p}))", text)
    assert len(pairs) == len(re.findall(p, text)) == 14
    rows = [row for row in results.splitlines() if re.search(p, row)]
    for number, value in pairs:
        places = len(number) - 2
        assert any(
            value in row
            and any(
                abs(float(cell) - float(number)) <= 0.5 * 10**-places + 1e-9
                for cell in re.findall(r"\d\.\d{4}", row)
            )
            for row in rows
        ), f"{number}, {value}"
