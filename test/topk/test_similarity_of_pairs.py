"""Similarities of pairs have the values and gradients of the dense matrix."""

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool import structural_similarity
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.similarity_of_pairs import similarity_of_pairs

STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])


@pytest.mark.parametrize("measure", SPARSE_MEASURES)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equal_the_oracle_and_the_gradient_of_the_dense_matrix(flavor: str, measure: str) -> None:
    for seed, (p, lam) in enumerate([(1, 0.0), (1, 0.3), (2, 0.0), (3, 1.0)]):
        graph = draw(flavor, seed)
        n, node = graph.num_nodes, torch.arange(graph.num_nodes)
        pairs = torch.stack([node.repeat_interleave(n), node.repeat(n)])
        edge_index, weight = graph.edge_index, graph.edge_weight()
        sim = similarity_of_pairs(edge_index, pairs, weight, n, p, lam, measure)
        exact = oracle.similarity(graph.exact_adj, p, lam, measure)
        expected = torch.tensor(exact, dtype=torch.float64).view(-1)
        tolerance = 1e-6 if weight is None else 1e-9
        torch.testing.assert_close(sim.double(), expected, rtol=tolerance, atol=tolerance)

        # Random weights avoid equal norms, for which an overlap has no gradient.
        weight = torch.rand(len(graph.edges), dtype=torch.float64).requires_grad_()
        sim = similarity_of_pairs(edge_index, pairs, weight, n, p, lam, measure)
        adj = torch.zeros(n, n, dtype=torch.float64)
        adj = adj.index_put(tuple(edge_index), weight, accumulate=True)
        dense = structural_similarity(adj, p, lam, measure).view(-1)
        upstream = torch.randn_like(dense)
        found, wanted = (
            torch.autograd.grad((out * upstream).sum(), weight)[0] for out in (sim, dense)
        )
        torch.testing.assert_close(found, wanted)


def test_a_bipartite_graph_and_shapes() -> None:
    edge_index = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 2, 2]])
    pairs = torch.tensor([[0, 0, 2, 1, 1], [1, 2, 1, 1, 1]])  # with repeats
    sim = similarity_of_pairs(edge_index, pairs, num_nodes=(3, 3))
    torch.testing.assert_close(sim, torch.tensor([0.5, 0.0, 0.5**0.5, 1.0, 1.0]))
    assert similarity_of_pairs(edge_index, torch.empty(2, 0, dtype=torch.long)).shape == (0,)
    weight = torch.ones(6, dtype=torch.float16)
    assert similarity_of_pairs(STAR, STAR.int(), weight).dtype == torch.float16


@pytest.mark.parametrize(
    ("pairs", "options", "error", "name"),
    [
        ([[0], [1]], {}, TypeError, "`pairs`"),
        (torch.tensor([0, 1]), {}, ValueError, "`pairs`"),
        (torch.tensor([[0.0], [1.0]]), {}, TypeError, "`pairs`"),
        (torch.tensor([[0], [4]]), {}, ValueError, "`pairs`"),
        (torch.tensor([[0], [-1]]), {}, ValueError, "`pairs`"),
        (STAR, {"measure": "l2"}, ValueError, "`measure`"),
        (STAR, {"p": 0}, ValueError, "`p`"),
        (STAR, {"num_nodes": 2}, ValueError, "`edge_index`"),
    ],
)
def test_wrong_arguments(pairs: object, options: dict, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        similarity_of_pairs(STAR, pairs, **options)  # type: ignore[arg-type]
