"""The arguments of a top k, once they are checked."""

from typing import NamedTuple, Optional


class DescriptionSettings(NamedTuple):
    """What the descriptions of the nodes depend on."""

    p: int
    lam: float
    measure: str  # for the scale of the descriptions: the cosine allows one for each node


class SelectionSettings(NamedTuple):
    """Which candidates take a place in a row."""

    k: int
    measure: str
    loop: bool = True
    min_similarity: Optional[float] = None
    max_degree: Optional[int] = None
