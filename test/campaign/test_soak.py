"""The long run notices what grows, and what is left."""

from pathlib import Path

import pytest

from campaign import soak
from campaign.soak import Round, summary

MINUTE = 60.0


def rounds(memory: int = 100, files: tuple[str, ...] = (), more: int = 0) -> list[Round]:
    """A hundred of them; what is given is that of the second half."""
    return [
        Round(MINUTE * n, memory if n > 50 else 100, list(files), 5 + more * n, 2)
        for n in range(1, 101)
    ]


def test_flat_memory_and_nothing_left() -> None:
    found = summary(rounds(memory=101))
    assert found["failures"] == []
    assert (found["rounds"], found["minutes"], found["growth"]) == (100, 100.0, 0.01)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (rounds(memory=103), "memory: changed by 3.0%"),
        (rounds(memory=97), "memory: changed by -3.0%"),
        (rounds(files=("work/a.pt",)), "files: work/a.pt"),
        (rounds(more=1), "descriptors: 13 early, 105 in the end"),
    ],
)
def test_faults(given: list[Round], name: str) -> None:
    assert summary(given)["failures"] == [name]


def test_a_round_leaves_nothing(tmp_path: Path) -> None:
    soak.train(tmp_path / "work", 0)
    assert soak.files_below(tmp_path) == []


def test_a_file_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def careless(folder: Path, seed: int) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "left").touch()

    monkeypatch.setattr(soak, "train", careless)
    assert soak.main(["--minutes", "0", "--json", str(tmp_path / "summary.json")]) == 1
    assert '"files: work/left"' in capsys.readouterr().out
    assert '"files: work/left"' in (tmp_path / "summary.json").read_text()
