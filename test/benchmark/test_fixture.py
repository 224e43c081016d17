"""The fixture that continuous integration uses where the real data sets are not available."""

import json
import shutil
from pathlib import Path

from graph_classification import main
from helpers.tu_files import write_shapes

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_it_is_what_its_generator_writes(tmp_path: Path) -> None:
    """After a change of the generator, write it again: `write_shapes(Path("test/fixtures"))`."""
    made, kept = write_shapes(tmp_path), FIXTURES / "SHAPES" / "raw"
    assert {p.name: p.read_text() for p in made.iterdir()} == {
        p.name: p.read_text() for p in kept.iterdir()
    }


def test_the_command_runs_on_it(tmp_path: Path) -> None:
    # A copy: PyG writes its processed files beside the raw ones.
    shutil.copytree(FIXTURES, tmp_path / "data")
    options = {
        "--dataset": "SHAPES",
        "--root": tmp_path / "data",
        "--out": tmp_path / "out",
        "--width": 0.05,
        "--fold": 0,
        "--epochs": 1,
        "--device": "cpu",
    }
    assert main([str(word) for pair in options.items() for word in pair]) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["data"]["num_graphs"] == 60
    assert results["data"]["num_classes"] == 3
    assert len(results["folds"]) == 1
    assert (tmp_path / "out" / "clusters.png").exists()
