"""The top k as pairs, with and without ties at the last place."""

import pytest
import torch

from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool import structural_similarity, topk_similarity
from torch_geometric_simpool.topk.similarity_graph import similar_pairs
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings


@pytest.mark.parametrize("flavor", FLAVORS)
def test_ties_are_all_nodes_that_equal_the_last(flavor: str) -> None:
    for seed, k, loop in ((0, 1, True), (1, 2, False), (2, 3, False)):
        graph = draw(flavor, seed)
        n, weight = graph.num_nodes, graph.edge_weight()
        edges = EdgeList(graph.edge_index, weight, n)
        settings = TopKSettings(loop=loop)
        pairs, similarity = similar_pairs(edges, k, settings)
        values, index = topk_similarity(graph.edge_index, k, weight, n, loop=loop)
        row, place = (index >= 0).nonzero(as_tuple=True)
        assert torch.equal(pairs, torch.stack([row, index[row, place]]))
        assert torch.equal(similarity, values[row, place])

        pairs, similarity = similar_pairs(edges, k, settings, ties=True)
        dense = structural_similarity(graph.adj()).masked_fill(torch.eye(n) * (not loop) > 0, 0)
        assert torch.equal(pairs[0], pairs[0].sort().values)
        torch.testing.assert_close(similarity.double(), dense[tuple(pairs)], check_dtype=False)
        for i in range(n):
            candidates = dense[i][dense[i].abs() > 1e-9].sort(descending=True).values
            last = candidates[min(k, len(candidates)) - 1] if len(candidates) else 2.0
            expected = (dense[i] >= last - 1e-9) & (dense[i].abs() > 1e-9)
            assert pairs[1][pairs[0] == i].sort().values.tolist() == (
                expected.nonzero().flatten().tolist()
            )


def test_gradients_flow_to_the_chosen_pairs() -> None:
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)
    edge_index = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    edges = EdgeList(edge_index, weight, 4)
    similar_pairs(edges, 1, TopKSettings(lam=1.0, loop=False), ties=True)[1].sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0
