"""The README is one page, and its numbers are those stored. `docs/test_snippets.py` runs it."""

import re
import statistics
from pathlib import Path

from harness.store import read_results

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_accuracies_of_the_readme_are_stored() -> None:
    results = list(read_results(ROOT / "benchmark" / "results" / "readme.parquet").values())
    for method in ("structural", "both", "node"):
        accuracy = [
            r.best_val_accuracy
            for r in results
            if r.run.dataset == "motifs" and r.run.features == method
        ]
        mean, deviation = statistics.mean(accuracy), statistics.pstdev(accuracy)
        expected = f"| `{method}` | {mean:.3f} ± {deviation:.3f} | {min(accuracy):.3f} |"
        assert expected in README
    for result in results:
        if result.run.dataset in ("ENZYMES", "DD"):
            assert f"{result.best_val_accuracy:.4f} in epoch {result.best_epoch}" in README


def test_a_page_is_enough() -> None:
    assert len(README.splitlines()) <= 170


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
