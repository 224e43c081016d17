"""The indices mapping trick: the naive formula of the paper, the range, and edge cases."""

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool import map_indices, topk_similarity

NON_NEGATIVE = [f for f in FLAVORS if not f.startswith(("signed", "parallel_weighted"))]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_naive_equals_efficient(flavor: str) -> None:
    """Mapping the dense `C` before gathering equals gathering before mapping."""
    for seed, (k, p, lam, alpha) in enumerate(
        [(1, 1, 0.0, 1.0), (4, 2, 0.5, 0.0), (11, 1, 0.0, 0.8), (3, 2, 0.5, 0.25)]
    ):
        graph = draw(flavor, seed)
        n = graph.num_nodes
        values, index = topk_similarity(graph.edge_index, k, graph.edge_weight(), n, p=p, lam=lam)
        mapped = map_indices(values.double(), index, n, alpha)
        expected = torch.tensor(oracle.mapped(graph.exact_adj, k, p, lam, alpha)).view(n, k)
        torch.testing.assert_close(mapped, expected, rtol=0, atol=1e-6, check_dtype=False)
        if flavor in NON_NEGATIVE:
            places = mapped[index >= 0]
            assert (mapped[index < 0] == 0).all()
            assert (places >= 1 / (n + 1)).all()
            assert (places <= 1 - (1 - alpha) / (n + 1) + 1e-12).all()


def test_by_hand() -> None:
    values = torch.tensor([[1.0, 0.5, 0.0], [0.25, 0.0, -0.5]], dtype=torch.float64)
    index = torch.tensor([[0, 2, -1], [3, 1, 1]])
    expected = torch.tensor([[1.5 / 5, 3.25 / 5, 0], [4.125 / 5, 0, 1.75 / 5]])
    torch.testing.assert_close(map_indices(values, index, 4, 0.5), expected.double())
    # A place is empty if the similarity is zero, but not if only its product with alpha is zero.
    assert map_indices(values, index, 4, 0.0)[0].tolist() == [1 / 5, 3 / 5, 0]
    assert map_indices(torch.tensor([[0.5]]), torch.tensor([[-1]]), 3).item() == 0


def test_two_nodes_share_a_value_at_alpha_one_alone() -> None:
    n, values = 1000, torch.stack([torch.rand(1000), torch.ones(1000), torch.full((1000,), 1e-6)])
    mapped = map_indices(values, torch.arange(n).repeat(3, 1), n, alpha=0.99)
    assert (mapped[:, 1:].amin(0) > mapped[:, :-1].amax(0)).all()
    shared = map_indices(torch.tensor([[1.0, 1e-20]]), torch.tensor([[0, 1]]), 3, alpha=1.0)
    assert shared[0, 0] == shared[0, 1]


def test_each_row_has_the_size_of_its_graph() -> None:
    graphs = draw_all(3)
    joined, batch = union(graphs)
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    first = (sizes.cumsum(0) - sizes)[batch].unsqueeze(1)
    values, index = topk_similarity(joined.edge_index, 4, num_nodes=joined.num_nodes)
    mapped = map_indices(values, torch.where(index >= 0, index - first, index), sizes[batch], 0.8)
    for graph, rows in zip(graphs, mapped.split(sizes.tolist()), strict=True):
        alone = topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes)
        assert torch.equal(rows, map_indices(*alone, num_nodes=graph.num_nodes, alpha=0.8))


def test_shapes_and_types() -> None:
    values, index = torch.rand(2, 5, 3), torch.randint(0, 5, (2, 5, 3))
    expected = map_indices(values, index, 5)
    assert expected.dtype == values.dtype
    for dtype in (torch.uint8, torch.uint16, torch.int32):
        size = torch.full((2, 5), 5, dtype=dtype)
        assert torch.equal(map_indices(values, index.to(dtype), size), expected)
    assert map_indices(torch.rand(0, 3), torch.zeros(0, 3, dtype=torch.long), 0).shape == (0, 3)


def test_gradient() -> None:
    values = torch.rand(4, 3, dtype=torch.float64).requires_grad_()
    index = torch.tensor([[0, 1, -1], [2, 3, 0], [-1, -1, -1], [1, 2, 3]])
    assert torch.autograd.gradcheck(lambda v: map_indices(v, index, 4, 0.8), (values,))


def test_wrong_arguments_are_named() -> None:
    values, index = torch.rand(3, 2), torch.zeros(3, 2, dtype=torch.long)
    for name, arguments in (
        ("values", (index, index, 3)),
        ("values", (values[0], index[0], 3)),
        ("index", (values, values, 3)),
        ("index", (values, index[:2], 3)),
        ("index", (values, index + 3, 3)),
        ("index", (values, index - 2, 3)),
        ("num_nodes", (values, index, -1)),
        ("num_nodes", (values, index, torch.ones(2, dtype=torch.long))),
        ("num_nodes", (values, index, torch.ones(3))),
        ("alpha", (values, index, 3, 1.5)),
    ):
        with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
            map_indices(*arguments)  # type: ignore[arg-type]
