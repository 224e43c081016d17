"""The mapping of the reference, in both formulas of the paper."""

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.reference import (
    map_indices,
    naive_map_indices,
    structural_similarity,
    topk,
    topk_similarity,
)


@pytest.mark.parametrize("alpha", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_exact_fractions(flavor: str, alpha: float) -> None:
    graph, k = draw(flavor, 0), 4
    n = graph.num_nodes
    found = map_indices(*topk_similarity(graph.adj(), k), n, alpha)
    expected = torch.tensor(oracle.mapped(graph.exact_adj, k, 1, 0.0, alpha), dtype=torch.float64)
    torch.testing.assert_close(found, expected.view(n, k))


@pytest.mark.parametrize("k", [1, 4, 20])
@pytest.mark.parametrize("alpha", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_naive_equals_efficient(flavor: str, alpha: float, k: int) -> None:
    """Both formulas of the paper, mapping before or after gathering, are equal."""
    c = structural_similarity(draw(flavor, 1).adj(), p=2)
    efficient = map_indices(*topk(c, k), c.size(0), alpha)
    torch.testing.assert_close(naive_map_indices(c, k, alpha), efficient)


def test_by_hand() -> None:
    """The row has nodes 1 and 3 of `n = 3`, counted from one, and an empty place."""
    values, index = torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[0, 2, -1]])
    torch.testing.assert_close(map_indices(values, index, 3), torch.tensor([[2 / 4, 3.5 / 4, 0.0]]))
    torch.testing.assert_close(
        map_indices(values, index, 3, alpha=0.0), torch.tensor([[1 / 4, 3 / 4, 0.0]])
    )
