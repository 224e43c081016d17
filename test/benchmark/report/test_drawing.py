"""Plots can be read: no line is hidden, axes have whole epochs, files are equal each time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from harness.report.drawing import COLORS, METADATA, PlotFolder, epoch_axis, line_style, plt
from harness.report.fold_plots import plot_curves
from harness.report.plots import draw_accuracy, draw_curves
from harness.training.curves import CURVES_OF_LEVELS

START = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def fold(epochs: int, value: float = 0.5) -> dict[str, Any]:
    return {"history": {name: [value] * epochs for name in CURVES_OF_LEVELS}}


def colors_in(figure: plt.Figure) -> set[str]:
    """The colors of all pixels."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3)  # type: ignore[attr-defined]
    return {to_hex(color / 255).upper() for color in np.unique(pixels, axis=0)}


@pytest.mark.parametrize("epochs", [1, 2, 3, 40, 230])
@pytest.mark.parametrize("count", [2, 5, 6])
def test_lines_that_coincide_are_all_seen(epochs: int, count: int) -> None:
    figure, axis = plt.subplots(figsize=(4, 3))
    for number in range(count):
        style = line_style(number, count, epochs)
        axis.plot(range(1, epochs + 1), [0.5] * epochs, antialiased=False, **style)
        for line in axis.lines:
            line.set_markeredgewidth(2)  # so that a pixel of it is of its color alone
    assert set(COLORS[:count]) <= colors_in(figure)
    plt.close(figure)


def test_lines_that_coincide_differ_in_more_than_color() -> None:
    styles = [line_style(number, 6, 60) for number in range(6)]
    for name in ("color", "linestyle", "marker", "markevery", "linewidth"):
        assert len({str(style[name]) for style in styles}) == 6, name


@pytest.mark.parametrize("epochs", [1, 2, 3, 10, 230])
def test_epochs_are_whole(epochs: int) -> None:
    figure, axis = plt.subplots()
    axis.plot(range(1, epochs + 1), range(epochs), marker="o")
    epoch_axis(axis, epochs)
    low, high = axis.get_xlim()
    shown = [tick for tick in axis.get_xticks() if low <= tick <= high]
    assert shown
    assert all(tick == int(tick) for tick in shown)
    assert len(shown) >= min(epochs, 3)
    plt.close(figure)


def test_a_line_at_the_border_is_not_cut() -> None:
    figure = draw_curves({"one": [fold(3, 2.0)], "zero": [fold(3, 0.0)]}, "title")
    for axis in figure.axes:
        low, high = axis.get_ylim()
        assert low < 0 < 2 < high
    plt.close(figure)


@pytest.mark.parametrize("count", [1, 3])
def test_splits_are_drawn_where_there_are_several(count: int) -> None:
    rows = {"a": [{"best_val_accuracy": 0.7}] * count, "b": [{"best_val_accuracy": 0.6}]}
    figure = draw_accuracy(rows, {"a": 0.8, "b": None, "c": None}, "title")
    (axis,) = figure.axes
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    points = [np.asarray(found.get_offsets()) for found in axis.collections]
    splits = [found for found in points if len(found) == 3]
    if count == 1:
        assert texts == ["here, one split", "the paper, one split"]
        assert not splits
    else:
        assert texts == ["here, mean", "here, every split", "the paper, one split"]
        (found,) = splits
        assert found[:, 1].tolist() == [0.7] * 3
        assert len(set(found[:, 0])) == 3
    plt.close(figure)


def test_without_values_of_the_paper() -> None:
    figure = draw_accuracy({"a": [{"best_val_accuracy": 0.7}]}, {"a": None}, "title")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["here, one split"]
    plt.close(figure)


@pytest.mark.parametrize("kind", METADATA)
def test_equal_results_give_equal_files(tmp_path: Path, kind: str) -> None:
    for part in ("one", "two"):
        plot_curves(PlotFolder(tmp_path / part, kind), [fold(3), fold(3, 0.7)], "title")
    names = {f"curves_level{level}.{kind}" for level in (0, 1)}
    assert {path.name for path in (tmp_path / "one").iterdir()} == names
    for name in names:
        content = (tmp_path / "one" / name).read_bytes()
        assert content.startswith(START[kind])
        assert content == (tmp_path / "two" / name).read_bytes()


def test_dots_per_inch(tmp_path: Path) -> None:
    for dpi in (50, 100):
        figure = plt.figure(figsize=(2, 1))
        PlotFolder(tmp_path, dpi=dpi).save(figure, str(dpi))
        assert plt.imread(tmp_path / f"{dpi}.png").shape[:2] == (dpi, 2 * dpi)
