"""Short rows: eight at a time, in the order of exact fractions."""

from fractions import Fraction

import pytest
import torch

from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import backend as numba_backend
from torch_geometric_simpool.topk.numba.short import SHORT, largest_short_norm2
from torch_geometric_simpool.topk.parse import check_edges
from torch_geometric_simpool.topk.spec import TopKSettings


@pytest.mark.parametrize("measure", ["cosine", "jaccard", "dice", "overlap"])
@pytest.mark.parametrize("k", [1, 16, SHORT + 3])
def test_rows_with_any_number_of_candidates(k: int, measure: str) -> None:
    """Node `i` has the feature of its group, and some features of its own."""
    generator = torch.Generator().manual_seed(k)
    sizes = torch.arange(1, SHORT + 5)
    group = sizes.repeat_interleave(sizes)[torch.randperm(int(sizes.sum()), generator=generator)]
    num_nodes = group.numel()
    node = torch.arange(num_nodes)
    own = torch.randint(0, 4, (num_nodes,), generator=generator)
    row = torch.cat([node, node.repeat_interleave(own)])
    col = torch.cat([group, sizes.numel() + 1 + torch.arange(int(own.sum()))])
    edge_index, shape = torch.stack([row, col]), (num_nodes, int(col.max()) + 1)
    for loop in (True, False):
        values, index = topk_similarity(
            edge_index, k, num_nodes=shape, measure=measure, loop=loop, backend="numba"
        )
        expected = topk_similarity(
            edge_index, k, num_nodes=shape, measure=measure, loop=loop, backend="torch"
        )
        assert torch.equal(values, expected[0])
        assert torch.equal(index, expected[1])


@pytest.mark.parametrize("bits", [3, 10, 16, 20, 24])
def test_fractions_that_are_about_equal(bits: int) -> None:
    """Words hold about `50 - b` bits of keys, where ids have `b` bits.

    Node 0 has the first feature alone. The others have it `a` times, and another one `b` times, so
    their keys are `a^2 / (a^2 + b^2)`. For neighbors in a Farey sequence, these differ by about
    `1 / b^2`, relative to the key.
    """
    num_nodes, largest = 1000, 2**bits
    pairs = [(largest // 2 - 1 - t, largest - 1 - 2 * t) for t in range(3)] + [(1, 2), (1, 2)]
    pairs.sort(key=lambda pair: Fraction(*pair))  # so the best has the largest id
    nodes = torch.arange(1, len(pairs) + 1)
    edge_index = torch.stack([nodes.repeat(2), torch.tensor([0, 1]).repeat_interleave(len(pairs))])
    edge_index = torch.cat([torch.zeros(2, 1, dtype=torch.long), edge_index], dim=1)
    weight = torch.tensor([1, *(a for a, _ in pairs), *(b for _, b in pairs)])
    best = [0, *sorted(range(1, len(pairs) + 1), key=lambda t: (-Fraction(*pairs[t - 1]), t))]
    _, index = topk_similarity(edge_index, 6, weight, (num_nodes, 2), nodes=[0], backend="numba")
    assert index.tolist() == [best]


def test_rows_with_large_norms_are_not_short() -> None:
    def limit(weight: float) -> float:
        edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        edges = check_edges(edge_index, torch.tensor([1.0, 1.0, weight]), 3)
        graph = numba_backend.prepare(edges, TopKSettings(), Budget(None, force=True))
        return largest_short_norm2(graph.description, id_mask=3)

    # An edge is described at its source and at its target, with 1 at the other end.
    assert limit(1.0) == 2.0**50 / 4 / 2**2
    assert limit(7.0) == 2.0**50 / 4 / 50**2
    assert limit(0.3) == limit(-1.0) == -1.0  # real and negative weights
