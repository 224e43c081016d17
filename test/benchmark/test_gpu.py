"""The command for a GPU machine, on a CPU with small sizes."""

import json
from pathlib import Path

import pytest
import torch

import gpu

PARTS = {"tests", "pooling-20", "epoch-DD", "epoch-ENZYMES", "topk-uniform-300-6", "topk-star-50"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    assert gpu.main(["--device", "cpu", "--small", "--out", str(folder)]) == 0
    return folder


def test_every_part_writes_a_file(out: Path) -> None:
    found = {path.stem: json.loads(path.read_text()) for path in out.iterdir()}
    assert set(found) == PARTS
    assert found["tests"]["metrics"]["status"] in (0, 5)
    backends = found["topk-uniform-300-6"]["metrics"]
    assert backends["torch"]["same"] == {"values": True, "index": True}
    for part, name in (("pooling-20", "sim_pool"), ("topk-star-50", "numba")):
        assert found[part]["metrics"][name]["seconds"] > 0
    assert found["epoch-DD"]["metrics"]["data"] == "generated"
    assert found["epoch-DD"]["versions"]["torch"] == torch.__version__


def test_a_part_that_is_there_is_skipped(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "topk-star-50.json").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert gpu.main(["--device", "cpu", "--small", "--out", str(out)]) == 0
    after = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert set(after) - set(before) == {"topk-star-50.json"}
    assert all(after[name] == time for name, time in before.items())
    assert capsys.readouterr().out.count("there already") == len(PARTS) - 1


def test_no_part_is_begun_without_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--small", "--minutes", "0", "--out", str(tmp_path)]
    assert gpu.main(options) == 1
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out.count("no time left") == len(PARTS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--out", str(tmp_path)]) == 2
    assert "--device must be available" in capsys.readouterr().err
