"""The similarity of the reference, by hand and in exact fractions."""

import math

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.reference import structural_similarity
from torch_geometric_simpool.reference.similarity import MEASURES


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (1, 0.5), (2, 0.0), (3, 1.0)])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_exact_fractions(flavor: str, p: int, lam: float, measure: str) -> None:
    graph = draw(flavor, 0)
    exact = oracle.similarity(graph.exact_adj, p, lam, measure)
    expected = torch.tensor(exact, dtype=torch.float64).view(graph.num_nodes, graph.num_nodes)
    found = structural_similarity(graph.adj(), p, lam, measure)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_path_by_hand() -> None:
    """In the path 0 - 1 - 2 - 3, nodes at distance two share a neighbor."""
    path = torch.diag(torch.ones(3), 1)
    c = structural_similarity(path + path.T)
    half = 1 / math.sqrt(2)
    expected = [[1, 0, half, 0], [0, 1, 0, half], [half, 0, 1, 0], [0, half, 0, 1]]
    torch.testing.assert_close(c, torch.tensor(expected))


def test_a_directed_edge_by_hand() -> None:
    """In 0 -> 2 <- 1, the rows are [0 0 1 | 0 0 0] twice, and [0 0 0 | 1 1 0] for node 2."""
    adj = torch.tensor([[0.0, 0, 1], [0, 0, 1], [0, 0, 0]])
    assert structural_similarity(adj).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    # With self-loops, the rows are [1 0 1 | 1 0 0], [0 1 1 | 0 1 0] and [0 0 1 | 1 1 1].
    jaccard = structural_similarity(adj, lam=1.0, measure="jaccard")
    torch.testing.assert_close(jaccard[0], torch.tensor([1, 1 / 5, 2 / 5]))
    l2 = structural_similarity(adj, lam=1.0, measure="l2")
    torch.testing.assert_close(l2[0], torch.tensor([1, 1 / 3, 1 / (1 + math.sqrt(3))]))
    hamming = structural_similarity(adj, lam=1.0, measure="hamming")
    torch.testing.assert_close(hamming[0], torch.tensor([1, 1 / 3, 1 / 2]))


@pytest.mark.parametrize("measure", MEASURES)
def test_an_isolated_node_is_similar_to_none(measure: str) -> None:
    """An isolated node has similarity 0 to all nodes, itself included, and a finite gradient."""
    adj = torch.zeros(4, 4)
    adj[0, 1] = adj[1, 0] = 1
    adj.requires_grad_()
    c = structural_similarity(adj, measure=measure)
    assert (c[2:] == 0).all()
    assert (c[:, 2:] == 0).all()
    if measure != "hamming":
        (gradient,) = torch.autograd.grad(c.sum(), adj)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("measure", ["cosine", "jaccard", "l2"])
@pytest.mark.parametrize("p", [1, 2])
def test_gradient(measure: str, p: int) -> None:
    adj = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: structural_similarity(a, p, 0.5, measure), adj)


@pytest.mark.parametrize("p", [1, 2])
def test_is_permuted_with_the_graph(p: int) -> None:
    """The identity `C(P A P^T) = P C(A) P^T` also holds for directed graphs."""
    adj = draw("dyadic", 1).adj()
    order = torch.randperm(adj.size(0))
    permuted = structural_similarity(adj[order][:, order], p)
    torch.testing.assert_close(permuted, structural_similarity(adj, p)[order][:, order])
