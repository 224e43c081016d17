"""The page on tgp runs as it stands there, one block after the other."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")

PAGE = (Path(__file__).parents[2] / "docs" / "tgp.md").read_text(encoding="utf-8")


def test_python() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    for block in blocks:
        exec(compile(block, "docs/tgp.md", "exec"), names)
    assert names["nodes"].shape == (3, 12, 8)
    assert names["loss"].isfinite()
    assert 12 > names["sizes"][0] > names["sizes"][1]
