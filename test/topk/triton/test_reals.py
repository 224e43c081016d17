"""Weights whose sums round, in the interpreter: what the CPU backend chooses, on each path."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.backends import INTERPRETED
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.triton import plan

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)

DOUBLE = torch.float64


@pytest.fixture(params=["short", "long"], autouse=True)
def _rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all rows of small graphs short, or those of more than two products long."""
    if request.param == "long":
        monkeypatch.setattr(plan, "LONGEST_SORTED", 2)
        monkeypatch.setattr(plan, "SHORTEST_BLOCK", 2)
        monkeypatch.setattr(plan, "TABLES", 4096)


def both(
    edge_index: Tensor, k: int, weight: Tensor, num_nodes: int | tuple[int, int], **settings: Any
) -> tuple[Tensor, Tensor]:
    """The result of the Triton backend, which is that of the CPU backend."""
    here, there = (
        topk_similarity(edge_index, k, weight, num_nodes, backend=backend, **settings)
        for backend in ("triton", "numba")
    )
    assert torch.equal(here[1], there[1])
    torch.testing.assert_close(here[0], there[0], rtol=0, atol=1.2e-16)
    return here


def both_of_rows(
    rows: list[list[float]], dtype: torch.dtype = DOUBLE, measure: str = "cosine"
) -> tuple[Tensor, Tensor]:
    """The same, of the bipartite graph that has these weights; all rows are whole."""
    dense = torch.tensor(rows, dtype=dtype)
    edge_index = dense.nonzero().t().contiguous()
    size = dense.size(0), dense.size(1)
    return both(edge_index, len(rows), dense[tuple(edge_index)], size, measure=measure)


WEIGHTS = {
    "positive": torch.rand(40, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)),
    "signed": torch.rand(40, dtype=DOUBLE, generator=torch.Generator().manual_seed(1)) - 0.5,
    "canceling": torch.tensor([2.0, -2.0, -1.0, 0.3, 0.1, 0.2, -0.3], dtype=DOUBLE),
    "mixed": torch.tensor([1e30, -1e30, 1e-30, -1e-30, 1.0, 3e-30], dtype=DOUBLE),
}

SETTINGS: list[dict[str, Any]] = [
    {"measure": "cosine", "lam": 0.3},
    {"measure": "jaccard", "loop": False},
    {"measure": "cosine", "loop": False, "min_similarity": 0.2, "max_degree": 6},
    {"measure": "jaccard", "lam": 0.3, "nodes": torch.tensor([7, 3, 3, 0])},
]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_choice_of_the_cpu_backend(kind: str, p: int) -> None:
    generator = torch.Generator().manual_seed(p)
    edge_index = torch.randint(0, 12, (2, 30), generator=generator)
    choices = WEIGHTS[kind]
    weight = choices[torch.randint(0, len(choices), (30,), generator=generator)]
    for settings in SETTINGS:
        both(edge_index, 5, weight, 12, p=p, **settings)
    for measure in ("cosine", "jaccard"):
        both(edge_index, 5, weight, (12, 12), measure=measure, candidates=torch.arange(1, 12))


def test_terms_that_cancel_are_no_candidate() -> None:
    """`0.1 + 0.2 - 0.3` is not zero in float64."""
    _, index = both_of_rows([[0.1, 0.2, 0.3, 0.0], [1, 1, -1, 0], [0, 0, 0.5, 1]])
    assert index.tolist() == [[0, 2, -1], [1, 2, -1], [2, 0, 1]]


def test_what_rounding_loses_is_kept() -> None:
    """The products of row 0 with row 2 are 1 and two halves of what 1 cannot be added to."""
    lost = 2.0**-53
    _, index = both_of_rows([[1, 1, 1, 0], [1, 0, 0, lost], [1, lost, lost, 0]])
    assert index[0].tolist() == [0, 2, 1]


def test_rows_of_different_scales_have_one_in_jaccard() -> None:
    """Of rows whose ratio is `c`, it is `c / (1 + c^2 - c)`."""
    ratios = [1.0, 3.0, 64.0, 1e-30, 1e20]
    values, index = both_of_rows([[c * 0.3, c * 0.7] for c in ratios], measure="jaccard")
    assert index[0].tolist() == [0, 1, 2, 4, 3]
    expected = torch.tensor([1.0, 3 / 7, 64 / (1 + 64**2 - 64), 1e-20, 1e-30], dtype=DOUBLE)
    torch.testing.assert_close(values[0], expected, rtol=1e-14, atol=0)


def test_integers_beside_reals_tie_as_integers_do() -> None:
    """Multiples of one row have equal similarities, though the squares of products round.

    Those of fractions are as they round, in all backends.
    """
    row, factors = [29543.0, 20631.0, 15071.0], [9, 33, 3, 27, 15]
    multiples = [[factor * value for value in row] for factor in factors]
    _, index = both_of_rows([*multiples, [0.3, 0.0, 0.0]])
    assert index[:5, :5].tolist() == [[0, 1, 2, 3, 4]] * 5
    halves = [[value / 2 for value in multiple] for multiple in multiples]
    both_of_rows([*halves, [0.3, 0.0, 0.0]])


def test_a_node_is_as_similar_to_itself_as_can_be() -> None:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.rand(40, 3, generator=generator, dtype=DOUBLE)
    values, _ = both_of_rows(matrix.tolist())
    assert torch.equal(values[:, 0], torch.ones(40, dtype=DOUBLE))


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, DOUBLE])
def test_what_is_zero_in_the_type_of_the_result_takes_no_place(
    dtype: torch.dtype, measure: str
) -> None:
    """Below zero as well: what is smaller comes behind it."""
    small = {torch.float16: 2.0**-14, torch.float32: 1e-38, DOUBLE: 1e-300}[dtype]
    rows = [[1, small, small, 0.0], [0, small, 0, 1.5], [0, 0, -small, 1.5], [-1, 0, 0, 2.5]]
    for _ in range(3):
        values, index = both_of_rows(rows, dtype, measure)
        assert torch.equal(values == 0, index < 0)
        rows = [[value * small for value in row] for row in rows[:1]] + rows[1:]


def test_exact_sums_whose_similarity_is_zero_in_float16() -> None:
    rows = [[60000.0, 1.0, 0.0], [0.0, 1.0, 60000.0]]
    _, index = both_of_rows(rows, torch.float16)
    assert index.tolist() == [[0, -1], [1, -1]]
