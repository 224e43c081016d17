"""The validator of what was read from a file."""

from dataclasses import dataclass
from typing import Any, Optional

import pytest

from harness.store.schema import Count, Share, check


@dataclass
class Part:
    names: list[str]


@dataclass
class Whole:
    count: Count
    share: Share
    part: Part
    more: dict[str, list[float]]
    note: Optional[str]
    anything: Any
    later: int = 0


GOOD = {
    "count": 1,
    "share": 1,
    "part": {"names": ["a"], "another": 7},
    "more": {"a": [0.5, 2]},
    "note": None,
    "anything": [None],
}


def test_what_fits() -> None:
    check(Whole, GOOD)
    check(Whole, {**GOOD, "note": "a", "later": 3, "unknown": {}})
    check(Share, 0.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 0, "count is 0"),
        ("count", True, "count is True"),
        ("count", 1.0, r"count is 1\.0"),
        ("count", "1", "count is '1'"),
        ("count", None, "count is None"),
        ("share", 7.0, r"share is 7\.0"),
        ("share", float("nan"), "share is nan"),
        ("share", float("inf"), "share is inf"),
        ("share", 10**400, "share is a int"),
        ("share", False, "share is False"),
        ("part", [], r"part is \[\]"),
        ("part", {}, r"part\.names is missing"),
        ("part", {"names": "abc"}, r"part\.names is 'abc'"),
        ("part", {"names": ["a", 3]}, r"part\.names\[1\] is 3"),
        ("more", [], r"more is \[\]"),
        ("more", {"a": [0.5, None]}, r"more\.a\[1\] is None"),
        ("more", {"a": "abc"}, r"more\.a is 'abc'"),
        ("note", 3, "note is 3"),
        ("later", None, "later is None"),
    ],
)
def test_what_does_not_fit(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        check(Whole, {**GOOD, name: value})


@pytest.mark.parametrize("value", [None, [], 3, "Whole"])
def test_other_contents(value: object) -> None:
    with pytest.raises(ValueError, match="the content is"):
        check(Whole, value)
    with pytest.raises(ValueError, match=r"^count is missing$"):
        check(Whole, {})
