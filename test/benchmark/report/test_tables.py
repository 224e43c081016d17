"""Rows, columns and lines of the tables of one protocol."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.methods.presets import BENCHMARK_PRESETS
from harness.report import tables
from harness.report.tables import seconds
from harness.study.declarations import Experiment, Row, compared_with
from harness.study.experiments import EXPERIMENTS
from harness.study.run import Run
from helpers.reports import fake


def test_a_row_is_compared_with_the_one_that_it_names() -> None:
    runs = list(EXPERIMENTS["ENZYMES-10fold"].rows[0].runs[:3])
    labels = {"first": 0.9, "plain": 0.5, "encoded": 0.6}
    results: dict[Run, dict[str, Any]] = {}
    rows = []
    for size, (label, accuracy) in enumerate(labels.items(), 30):
        of = tuple(replace(run, batch_size=size).filled() for run in runs)
        # The differences to 'plain' are 0.10, 0.09 and 0.08.
        more = [0.01 * (label == "plain") * run.fold for run in of]
        results |= {run: fake(run, accuracy + a) for run, a in zip(of, more)}
        rows.append(Row(label, of, beside="plain" if label == "encoded" else None))
    lines = tables.section(Experiment("mine", "Mine", tuple(rows)), results).splitlines()
    header, _, *shown = [line.split(" | ") for line in lines if line.startswith("|")]
    column = header.index("difference to plain")
    assert [cells[column] for cells in shown] == ["", "", "+0.0900 (p = 0.005, 3 folds)"]
    assert [len(cells) for cells in shown] == [len(header)] * 3
    # If rows name several, each says which.
    several = (*rows, replace(rows[2], label="again", beside="encoded"))
    lines = tables.section(Experiment("mine", "Mine", several), results).splitlines()
    header, _, *shown = [line.split(" | ") for line in lines if line.startswith("|")]
    column = header.index("difference to another row")
    assert [cells[column] for cells in shown[2:]] == [
        "plain: +0.0900 (p = 0.005, 3 folds)",
        "encoded: +0.0000 (p = 1.000, 3 folds)",
    ]
    without = tuple(replace(row, beside=None) for row in rows)
    assert "difference to" not in tables.section(Experiment("mine", "Mine", without), results)


START = "Below 0.05 after Holm's correction, each column by itself."


def of_rows(apart: Mapping[str, tuple[float, ...]]) -> tuple[list[Row], dict[Run, dict[str, Any]]]:
    """Rows whose accuracies are these above 0.5."""
    base = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs
    results: dict[Run, dict[str, Any]] = {}
    rows = []
    for size, (label, more) in enumerate(apart.items(), 30):
        runs = tuple(replace(run, batch_size=size).filled() for run in base[:3])
        results |= {run: fake(run, 0.5 + m) for run, m in zip(runs, more)}
        rows.append(Row(label, runs))
    return rows, results


def test_what_is_significant_after_a_correction() -> None:
    """p is 0.046 and 0.014 without one; rows without a p value are named, and not counted."""
    apart: dict[str, tuple[float, ...]] = {"first": (0.0,) * 3}
    apart |= {"a": (0.2, 0.15, 0.1), "b": (-0.2, -0.17, -0.14)}
    apart |= {"shift": (0.1, 0.1, 0.1), "two": (0.2, 0.1), "none": ()}
    rows, results = of_rows(apart)
    text = tables.section(Experiment("mine", "Mine", tuple(rows)), results)
    few = "; rows with fewer than three folds: 2"
    column = f"*difference* (2 p values{few}): ahead `a`; behind `b`; no p value `shift`."
    assert text.splitlines()[-2:] == ["", f"{START} {column}"]
    # With a third p value, three times 0.014 is below 0.05, and two times 0.046 is not.
    rows.append(replace(rows[1], label="c"))
    text = tables.section(Experiment("mine", "Mine", tuple(rows)), results)
    column = f"*difference* (3 p values{few}): behind `b`; no p value `shift`."
    assert text.splitlines()[-1] == f"{START} {column}"
    text = tables.section(Experiment("mine", "Mine", tuple(rows[:2])), results)
    assert "Holm" not in text


def test_each_column_is_corrected_by_itself() -> None:
    """'a' and 'b' are ahead of the first row; of 'c', which varies less, 'a' alone is."""
    apart = {"first": (0.0, 0.0, 0.0), "a": (0.2, 0.17, 0.14), "b": (0.2, 0.15, 0.11)}
    apart |= {"c": (0.1, 0.1, 0.11)}
    rows, results = of_rows(apart)
    table = Experiment("mine", "Mine", compared_with("c", rows))
    assert [row.beside for row in table.rows] == ["c", "c", "c", None]
    first = "*difference* (3 p values): ahead `a`, `b`, `c`."
    other = "*difference to c* (3 p values): behind `first`."
    assert tables.section(table, results).splitlines()[-1] == f"{START} {first} {other}"


def test_settings_that_differ_are_not_those_of_the_first_row() -> None:
    """The first row may be of a method without mapped features, which has no alpha."""
    run = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs[0]
    other = replace(run, method="nopool", width=0.5, epochs=60).filled()
    text = tables.conditions([Row("nopool", (replace(run, method="nopool").filled(),))])
    assert "**width 1**, 100 epochs, batches of 20, learning rate 0.0001" in text
    text = tables.conditions([Row("nopool", (other,)), Row("simpool", (run,))])
    assert "width as each row says, k = 15, alpha = 0.8, epochs as each row says, " in text


def test_tables_whose_rows_cannot_be_told_apart() -> None:
    row = Row("a", EXPERIMENTS["ENZYMES-10fold"].rows[0].runs)
    with pytest.raises(ValueError, match=r"'mine' are not distinct: \['a', 'a'\]"):
        Experiment("mine", "Mine", (row, row))
    with pytest.raises(ValueError, match="'c' is beside 'b', which is no row"):
        Experiment("mine", "Mine", (row, replace(row, label="c", beside="b")))
    with pytest.raises(ValueError, match="'c' is beside itself"):
        Experiment("mine", "Mine", (row, replace(row, label="c", beside="c")))
    for label in ("a", "b"):
        with pytest.raises(ValueError, match=f"label: '{label}' is not one of \\['c'\\]"):
            compared_with(label, [row, replace(row, label="c")])


def test_tables_of_generated_data_say_what_width_1_is() -> None:
    """Their preset is narrower than the networks of the paper, which other tables call width 1."""
    wide, narrow = (BENCHMARK_PRESETS[name].architecture for name in ("enzymes-10fold", "motifs"))
    assert narrow == wide.scaled(0.25)
    said = "Width 1 is a quarter of the paper's networks here."
    for table in EXPERIMENTS.values():
        on_generated_data = table.rows[0].runs[0].preset == "motifs"
        assert (said in table.note) == on_generated_data


NEW = {"device": "cpu", "cpus": 2, "threads": 1, "memory": "kept", "denormals": "flushed"}


@pytest.mark.parametrize(
    ("kinds", "shown"),
    [
        ([{}, {}, {}], "7 *"),
        ([{"memory": "kept"}, {"denormals": "flushed"}, {}], "7 *"),
        ([{}, {}, NEW], "9"),
        ([NEW, NEW, NEW], "7"),
    ],
)
def test_seconds_of_old_runs_are_marked(kinds: list[dict[str, Any]], shown: str) -> None:
    there = {f: {"cpu_seconds": 5.0 + 2 * f, "hardware": kind} for f, kind in enumerate(kinds)}
    assert seconds(there) == shown


def test_seconds_may_not_be_known() -> None:
    assert seconds({0: {"hardware": NEW}}) == "-"
