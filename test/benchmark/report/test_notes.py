"""Numbers with three decimals in the paragraphs of NOTES.md are those of the tables beside them."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from harness.report.document import read_notes

BENCHMARK = Path(__file__).parents[3] / "benchmark"
NOTES = read_notes(BENCHMARK / "NOTES.md")
RESULTS = (BENCHMARK / "RESULTS.md").read_text(encoding="utf-8")
# Paragraphs that also speak of other tables, which they name.
ALSO = {"ENZYMES-locality": ["ENZYMES-order"]}
#: Of a count of edges, and an aim, which are in no table.
OTHERS = {"islands": {"0.805"}, "DD-10fold": {"0.846"}, "summary": {"0.846"}}
P = r"p [<=] 0\.\d{3}"
NUMBER = re.compile(rf"{P}|(?<![\d.])\d\.\d{{3}}(?!\d|\.\d)")
# As in '0.385 (p < 0.001)' or '0.019 ahead, p = 0.167'.
PAIR = re.compile(rf"(\d\.\d{{3}})(?: ahead| behind)?(?: \(|, )({P})")


def above(section: str) -> str:
    """What stands between a heading and its paragraphs: all tables for the summary."""
    if section == "summary":
        return "\n".join(line for line in RESULTS.splitlines() if line.startswith("|"))
    notes = NOTES[section].strip()
    parts = [part for part in RESULTS.split("\n## ") if notes in part]
    assert len(parts) == 1, f"the notes of {section} are {len(parts)} times in RESULTS.md"
    return parts[0].replace(notes, "")


def numbers(table: str) -> set[str]:
    """p values, and the other numbers rounded to three places, halves either way."""
    found = set(re.findall(P, table))
    for number in map(Decimal, re.findall(r"\d\.\d{3,4}", table)):
        found |= {
            str(number.quantize(Decimal("0.001"), rounding))
            for rounding in ("ROUND_HALF_UP", "ROUND_HALF_DOWN")
        }
    return found


@pytest.mark.parametrize("section", sorted(NOTES))
def test_numbers_are_those_of_the_tables(section: str) -> None:
    text = re.sub(r"\s+", " ", NOTES[section])
    there = "\n".join(above(name) for name in (section, *ALSO.get(section, [])))
    nowhere = set(NUMBER.findall(text)) - numbers(there) - OTHERS.get(section, set())
    assert not nowhere


@pytest.mark.parametrize("section", sorted(NOTES))
def test_a_number_and_its_p_value_are_in_one_row(section: str) -> None:
    """All tables together, which the summary is about, have two of five numbers somewhere."""
    text = re.sub(r"\s+", " ", NOTES[section])
    rows = list(map(numbers, above(section).splitlines()))
    apart = [pair for pair in PAIR.findall(text) if not any(row.issuperset(pair) for row in rows)]
    assert not apart


#: What the paragraphs, those of the summary too, say of Holm's correction: the section and column,
#: how many rows are ahead and behind, some of them, and some that are not significant.
HOLM: list[tuple[str, str, tuple[int, int], set[str], set[str]]] = [
    ("ENZYMES-10fold", "difference", (0, 0), set(), {"sortpool", "sagpool"}),
    ("ENZYMES-10fold", "difference to nopool", (0, 0), set(), {"simpool"}),
    ("DD-10fold", "difference to nopool", (0, 0), set(), {"simpool"}),
    ("DD-rate", "difference", (0, 3), set(), {"nopool, learning rate 3e-4"}),
    (
        "DD-rate",
        "difference to another row",
        (1, 0),
        {"baseline, learning rate 3e-4"},
        {"baseline, learning rate 1e-3", "nopool, learning rate 1e-3"},
    ),
    ("communities", "difference to nopool", (0, 5), {"diffpool"}, {"simpool"}),
    ("islands", "difference", (0, 1), {"baseline"}, {"nopool"}),
    (
        "islands",
        "difference to nopool",
        (0, 2),
        {"diffpool", "baseline"},
        {"simpool", "diffpool-unnormalized", "simpool, node"},
    ),
    ("motifs-order", "difference", (0, 4), set(), {"both, nodes by bfs", "both, nodes by fiedler"}),
    ("motifs-order", "difference to another row", (0, 0), set(), {"position alone, nodes by rcm"}),
    (
        "motifs-encodings",
        "difference to another row",
        (2, 0),
        {"simpool, node, encodings"},
        {"nopool, encodings"},
    ),
    ("ENZYMES-tgp", "difference", (0, 6), {"tgp:diff"}, {"tgp:sag", "tgp:nopool"}),
    (
        "ENZYMES-tgp",
        "difference to tgp:nopool",
        (0, 3),
        {"tgp:eigen", "tgp:maxcut", "tgp:ndp"},
        {"simpool", "tgp:asap"},
    ),
    ("ENZYMES-nested-larger-grid", "vote to single runs", (1, 0), {"diffpool"}, {"simpool"}),
    (
        "motifs-tgp",
        "difference to nopool",
        (7, 2),
        {
            *("simpool", "sagpool", "gunet"),
            *(f"tgp:{name}" for name in ("ec", "eigen", "kmis", "maxcut", "ndp", "sep")),
        },
        {"sortpool"},
    ),
]


@pytest.mark.parametrize(("section", "column", "counts", "low", "high"), HOLM)
def test_what_is_said_of_holms_correction(
    section: str, column: str, counts: tuple[int, int], low: set[str], high: set[str]
) -> None:
    table = next(part for part in RESULTS.split("\n## ") if f"\n\n`{section}`. " in part)
    (line,) = (row for row in table.splitlines() if row.startswith("Below 0.05 after Holm's"))
    found = re.search(rf"\*{column}\* \(\d+ p values[^)]*\): (.*?)\.(?: \*|$)", line)
    assert found is not None
    parts = dict(part.split(" ", 1) for part in found[1].split("; ") if part != "none")
    label = r"`([^`]*)`(?: \(to `[^`]*`\))?"
    ahead, behind = (re.findall(label, parts.get(way, "")) for way in ("ahead", "behind"))
    assert (len(ahead), len(behind)) == counts
    assert low <= {*ahead, *behind}
    assert not high & {*ahead, *behind}
    assert all(f"\n| {row} | " in table for row in high)


def test_numbers_that_are_looked_for() -> None:
    text = "0.770 (0.0034, p = 0.775; p < 0.001), +0.019, version 1.2.345, 1.000."
    assert NUMBER.findall(text) == ["0.770", "p = 0.775", "p < 0.001", "0.019", "1.000"]
    table = "| a | 0.7699 ± 0.0582 | -0.0185 (p = 0.167, 10 folds) | 0.889 |"
    assert numbers(table) == {"0.770", "0.058", "0.018", "0.019", "0.167", "p = 0.167", "0.889"}
    text = "0.385 (p < 0.001), 0.019 ahead, p = 0.167; 0.458, in one (p = 0.033)."
    assert PAIR.findall(text) == [("0.385", "p < 0.001"), ("0.019", "p = 0.167")]
