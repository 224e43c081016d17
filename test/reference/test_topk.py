"""The top k of the reference: its order and exact ties."""

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.reference import structural_similarity, topk, topk_similarity


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (2, 1.0)])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_exact_fractions(flavor: str, p: int, lam: float, measure: str, loop: bool) -> None:
    """The nodes are equal if float64 computes the key without rounding."""
    for seed in range(3):
        graph = draw(flavor, seed)
        assert oracle.float64_is_exact(graph.exact_adj, p, lam)
        rows = oracle.candidates(graph.exact_adj, p, lam, measure, loop)
        for k in (1, 3, graph.num_nodes + 2):
            values, index = topk_similarity(graph.adj(), k, p, lam, measure, loop)
            assert values.shape == index.shape == (graph.num_nodes, k)
            for row, found, ids in zip(rows, values, index, strict=True):
                best, missing = row[:k], max(0, k - len(row))
                assert ids.tolist() == [one.node for one in best] + [-1] * missing
                expected = torch.tensor([one.value for one in best] + [0.0] * missing)
                torch.testing.assert_close(found, expected.double(), rtol=1e-6, atol=0)


def test_order_by_hand() -> None:
    """Similarities descend, then indices ascend. Zeros are no candidates, negative values are."""
    c = torch.tensor([[0.5, 1.0, 0.5], [0.0, -0.5, 0.0], [0.0, 0.0, 0.0]])
    values, index = topk(c, 4)
    assert index.tolist() == [[1, 0, 2, -1], [1, -1, -1, -1], [-1, -1, -1, -1]]
    assert values.tolist() == [[1, 0.5, 0.5, 0], [-0.5, 0, 0, 0], [0, 0, 0, 0]]
    assert topk(c, 1)[1].tolist() == [[1], [1], [-1]]
    assert topk(c, 2, loop=False)[1].tolist() == [[1, 2], [-1, -1], [-1, -1]]
    assert topk(c, 2, min_similarity=0.6)[1].tolist() == [[1, -1], [-1, -1], [-1, -1]]
    assert topk(c, 3, min_similarity=0.5)[1].tolist() == [[1, 0, 2], [-1] * 3, [-1] * 3]


def test_a_key_orders_and_does_not_show() -> None:
    c = torch.tensor([[0.3, 0.2], [0.1, 0.1]])
    values, index = topk(c, 2, key=torch.tensor([[1.0, 2.0], [5.0, 5.0]]))
    assert index.tolist() == [[1, 0], [0, 1]]
    torch.testing.assert_close(values, torch.tensor([[0.2, 0.3], [0.1, 0.1]]))


def test_equal_cosines_are_tied_that_rounding_tells_apart() -> None:
    """The equal cosines `1 / sqrt(2)` and `3 / sqrt(18)` of three rows may differ by rounding."""
    adj = torch.zeros(5, 5, dtype=torch.float64)
    adj[:3, 3:] = torch.tensor([[1, 0], [1, 1], [3, 3]])
    c = structural_similarity(adj)
    # Only some processors round them differently.
    c[0, 2] = torch.nextafter(c[0, 1], torch.ones(()).double())
    assert topk(c, 3)[1][0].tolist() == [0, 2, 1]
    assert topk_similarity(adj, 3)[1][0].tolist() == [0, 1, 2]


def test_many_ties() -> None:
    """There are many ties, because an unstable sort keeps the order of a few."""
    assert topk(torch.ones(2, 500), 500)[1].tolist() == [list(range(500))] * 2


def test_gradient() -> None:
    """Gradients flow through the values of the chosen entries."""
    adj = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda adj: topk_similarity(adj, 2)[0], adj)
