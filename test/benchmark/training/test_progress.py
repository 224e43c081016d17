"""In a file, progress is a line every few epochs; on a terminal, a bar."""

import io
import sys

import pytest

from harness.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("epochs", "count"), [(1, 1), (3, 3), (60, 21), (230, 22)])
def test_lines_in_a_file(capsys: pytest.CaptureFixture[str], epochs: int, count: int) -> None:
    progress = Progress("fold 3", epochs, 0)
    for epoch in range(1, epochs + 1):
        progress.show(epoch, {"loss": "0.500", "val": "0.750"})
    progress.close()
    lines = capsys.readouterr().err.split("\n")
    assert lines.pop() == ""
    assert len(lines) == count
    assert lines[0] == f"fold 3: epoch 1 of {epochs}: loss 0.500, val 0.750"
    assert lines[-1] == f"fold 3: epoch {epochs} of {epochs}: loss 0.500, val 0.750"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress("fold 3", 4, 2)
    progress.show(3, {"loss": "0.500"})
    progress.show(4, {"loss": "0.250"})
    progress.close()
    shown = sys.stderr.getvalue()
    assert "2/4" in shown
    assert "4/4" in shown
    assert "loss=0.250" in shown
    assert "epoch 4 of 4" not in shown
