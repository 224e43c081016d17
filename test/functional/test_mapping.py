"""The indices mapping trick: the naive formula of the paper, the range, edge cases."""

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool import map_indices, topk_similarity

NON_NEGATIVE = [f for f in FLAVORS if not f.startswith(("signed", "parallel_weighted"))]


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.8, 1.0])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_naive_equals_efficient(flavor: str, alpha: float) -> None:
    """Map the dense `C`, then gather; or gather, then map."""
    for seed in range(3):
        graph = draw(flavor, seed)
        for p, lam in ((1, 0.0), (2, 0.5)):
            for k in (1, 4, graph.num_nodes + 1):
                values, index = topk_similarity(
                    graph.edge_index, k, graph.edge_weight(), graph.num_nodes, p=p, lam=lam
                )
                mapped = map_indices(values.double(), index, graph.num_nodes, alpha)
                naive = oracle.mapped(graph.exact_adj, k, p, lam, alpha)
                expected = torch.tensor(naive, dtype=torch.float64).view(graph.num_nodes, k)
                torch.testing.assert_close(mapped, expected, rtol=0, atol=1e-6)


def test_by_hand() -> None:
    values = torch.tensor([[1.0, 0.5, 0.0], [0.25, 0.0, 0.0]], dtype=torch.float64)
    index = torch.tensor([[0, 2, -1], [3, -1, -1]])
    mapped = map_indices(values, index, num_nodes=4, alpha=0.5)
    torch.testing.assert_close(
        mapped,
        torch.tensor([[1.5 / 5, 3.25 / 5, 0], [4.125 / 5, 0, 0]], dtype=torch.float64),
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("flavor", NON_NEGATIVE)
def test_range_for_non_negative_weights(flavor: str, alpha: float) -> None:
    for seed in range(3):
        graph = draw(flavor, seed)
        n = graph.num_nodes
        values, index = topk_similarity(graph.edge_index, 5, graph.edge_weight(), n, lam=0.5)
        mapped = map_indices(values.double(), index, n, alpha)
        there = mapped[index >= 0]
        assert (mapped[index < 0] == 0).all()
        assert (there >= 1 / (n + 1)).all()
        assert (there <= 1 - (1 - alpha) / (n + 1) + 1e-12).all()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_two_nodes_never_share_a_value_below_alpha_one(alpha: float) -> None:
    """The ranges `[j, j + alpha] / (n + 1)` are disjoint."""
    n = 1000
    index = torch.arange(n).repeat(3, 1)
    values = torch.stack([torch.rand(n), torch.ones(n), torch.full((n,), 1e-6)])
    mapped = map_indices(values, index, n, alpha)
    for lower in range(3):
        for upper in range(3):
            assert (mapped[upper, 1:] > mapped[lower, :-1]).all()


def test_at_alpha_one_two_nodes_can_share_a_value() -> None:
    """Similarity 1 to node 0 and nearly 0 to node 1: why `alpha < 1` is needed."""
    mapped = map_indices(torch.tensor([[1.0, 1e-20]]), torch.tensor([[0, 1]]), 3, alpha=1.0)
    assert mapped[0, 0] == mapped[0, 1]


def test_a_place_is_empty_where_the_similarity_is_zero_not_its_product_with_alpha() -> None:
    values, index = torch.tensor([[0.5, 0.0]]), torch.tensor([[1, 2]])
    assert map_indices(values, index, 3, alpha=0.0).tolist() == [[0.5, 0.0]]


def test_empty_by_index_alone() -> None:
    """A place with index -1 is empty, whatever its value."""
    assert map_indices(torch.tensor([[0.5]]), torch.tensor([[-1]]), 3).item() == 0


def test_negative_similarities_leave_the_range() -> None:
    """As documented."""
    mapped = map_indices(torch.tensor([[-1.0, -0.5]]), torch.tensor([[0, 1]]), 3)
    torch.testing.assert_close(mapped, torch.tensor([[0.0, 1.5 / 4]]))


def test_the_size_of_each_rows_own_graph() -> None:
    """A batch gives the rows of each graph alone."""
    graphs = draw_all(3)
    joined, batch = union(graphs)
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    first = (sizes.cumsum(0) - sizes)[batch].unsqueeze(1)
    values, index = topk_similarity(joined.edge_index, 4, num_nodes=joined.num_nodes)
    local = torch.where(index >= 0, index - first, index)
    mapped = map_indices(values, local, sizes[batch], 0.8)
    start = 0
    for graph in graphs:
        alone = map_indices(
            *topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes),
            num_nodes=graph.num_nodes,
            alpha=0.8,
        )
        assert torch.equal(mapped[start : start + graph.num_nodes], alone)
        start += graph.num_nodes


def test_shapes_and_types() -> None:
    values, index = torch.rand(2, 5, 3), torch.randint(0, 5, (2, 5, 3))
    for size in (5, torch.tensor(5), torch.full((2, 5), 5)):
        mapped = map_indices(values, index, size)
        assert mapped.shape == values.shape
        assert mapped.dtype == values.dtype
    assert map_indices(values.double(), index.int(), 5).dtype == torch.float64
    assert map_indices(torch.rand(0, 3), torch.zeros(0, 3, dtype=torch.long), 0).shape == (0, 3)


def test_gradient() -> None:
    values = torch.rand(4, 3, dtype=torch.float64).requires_grad_()
    index = torch.tensor([[0, 1, -1], [2, 3, 0], [-1, -1, -1], [1, 2, 3]])
    assert torch.autograd.gradcheck(lambda v: map_indices(v, index, 4, 0.8), (values,))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int8, torch.int32])
def test_types_of_the_index(dtype: torch.dtype) -> None:
    values, index = torch.rand(3, 2), torch.tensor([[0, 2], [1, 0], [2, 1]])
    assert torch.equal(map_indices(values, index.to(dtype), 3), map_indices(values, index, 3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int16, torch.int64])
def test_types_of_the_size(dtype: torch.dtype) -> None:
    values, index = torch.ones(1, 2), torch.tensor([[0, 254]])
    expected = map_indices(values, index, 255)
    for size in (torch.tensor(255, dtype=dtype), torch.tensor([255], dtype=dtype)):
        assert torch.equal(map_indices(values, index, size), expected)
