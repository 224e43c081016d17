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
OTHERS = {"islands": {"0.805"}}  # of a count of edges, which is in no table
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


def test_numbers_that_are_looked_for() -> None:
    text = "0.770 (0.0034, p = 0.775; p < 0.001), +0.019, version 1.2.345, 1.000."
    assert NUMBER.findall(text) == ["0.770", "p = 0.775", "p < 0.001", "0.019", "1.000"]
    table = "| a | 0.7699 ± 0.0582 | -0.0185 (p = 0.167, 10 folds) | 0.889 |"
    assert numbers(table) == {"0.770", "0.058", "0.018", "0.019", "0.167", "p = 0.167", "0.889"}
    text = "0.385 (p < 0.001), 0.019 ahead, p = 0.167; 0.458, in one (p = 0.033)."
    assert PAIR.findall(text) == [("0.385", "p < 0.001"), ("0.019", "p = 0.167")]
