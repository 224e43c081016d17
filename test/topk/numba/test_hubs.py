"""Hubs, whose lists are read only as far as they can name one of the best."""

from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import counting
from helpers.kernels import from_python
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import hubs as hub_kernels
from torch_geometric_simpool.topk.numba import plan
from torch_geometric_simpool.topk.numba.arrays import Description, Hubs
from torch_geometric_simpool.topk.numba.describe import describe
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec

hubs = from_python(hub_kernels)
FORCED = Budget(None, force=True)


def described(edge_index: Tensor, num_nodes: int, lam: float = 0.0) -> Description:
    settings = SimilaritySpec(1, lam, "cosine")
    return describe(EdgeList(edge_index, None, num_nodes, None), settings, FORCED)


def hubs_of(edge_index: Tensor, num_nodes: int, lam: float = 0.0) -> Hubs:
    description = described(edge_index, num_nodes, lam)
    assert description.unweighted
    return plan.find_hubs(description, [lists for _, lists in description.sides])


def with_hubs(rng: Random, num_nodes: int, num_hubs: int, directed: bool) -> Tensor:
    """A sparse graph, and some nodes that are joined to most of the others; no self loops."""
    hubs = rng.sample(range(num_nodes), num_hubs)
    pairs = {(rng.randrange(num_nodes), rng.randrange(num_nodes)) for _ in range(num_nodes)}
    for hub in hubs:
        share = rng.choice([0.3, 0.6, 1.0])
        others = [j for j in range(num_nodes) if rng.random() < share]
        pairs |= {(hub, j) if rng.random() < 0.5 or not directed else (j, hub) for j in others}
    if not directed:
        pairs |= {(j, i) for i, j in pairs}
    return torch.tensor(sorted((i, j) for i, j in pairs if i != j)).t().contiguous()


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("num_hubs", [1, 2, 5, 12])
def test_random_graphs_with_hubs(
    num_hubs: int, directed: bool, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to skip against all products."""
    skipped = 0
    for seed in range(6):
        rng = Random(f"{num_hubs} {directed} {seed}")
        n = rng.randint(20, 70)
        edge_index = with_hubs(rng, n, num_hubs, directed)
        for lam, loop, max_degree in ((0, True, None), (1, False, None), (0, True, n // 2)):
            settings: dict[str, Any] = {
                "lam": lam,
                "measure": measure,
                "loop": loop,
                "max_degree": max_degree,
            }
            everything = counting.top(edge_index, n + 3, n, **settings)
            for shortest in (0, 2, 7):
                monkeypatch.setattr(plan, "SHORTEST_HUB", shortest)
                for k in (1, 2, 5, 16, n + 3):
                    result = topk_similarity(edge_index, k, None, n, backend="numba", **settings)
                    expected = everything[0][:, :k], everything[1][:, :k]
                    counting.assert_same(result, expected)
            skipped += hubs_of(edge_index, n, lam).side.size
    assert skipped > 0


@pytest.mark.parametrize("directed", [False, True])
def test_more_than_sixty_four_hubs(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit each is all there is; what is shorter is read."""
    monkeypatch.setattr(plan, "SHORTEST_HUB", 1)
    for seed in range(4):
        n = 110
        edge_index = with_hubs(Random(seed), n, 90, directed)
        found = hubs_of(edge_index, n)
        assert 1 < found.side.size <= 64
        for k in (1, 7, 200):
            for measure in ("cosine", "jaccard"):
                result = topk_similarity(
                    edge_index, k, None, n, measure=measure, loop=False, backend="numba"
                )
                expected = counting.top(edge_index, k, n, measure=measure, loop=False)
                counting.assert_same(result, expected)


def test_sixty_four_hubs_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest bit is a sign in most types."""
    monkeypatch.setattr(plan, "SHORTEST_HUB", 66)
    # 64 lists of different lengths; node 0 is in all of them.
    edges = [(j, 200 + h) for h in range(64) for j in range(70 + h)]
    edge_index = torch.tensor(edges).t()
    found = hubs_of(edge_index, 264)
    assert found.side.size == 64
    assert int(found.mask.max()) == 2**64 - 1
    for k in (1, 3, 30, 300):
        result = topk_similarity(edge_index, k, None, 264, backend="numba")
        counting.assert_same(result, counting.top(edge_index, k, 264))


def test_ties_among_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs of equal lengths, whose members are all alike but for their numbers."""
    monkeypatch.setattr(plan, "SHORTEST_HUB", 3)
    for seed in range(8):
        rng = Random(seed)
        n, num_hubs = 40, rng.choice([2, 3, 8])
        number = rng.sample(range(n), n)
        hubs, members = number[:num_hubs], number[num_hubs:]
        pairs = [(h, j) for h in hubs for j in rng.sample(members, len(members) // 2)]
        if seed % 2:
            pairs = [(h, j) for h in hubs for j in members]
        edge_index = torch.tensor(pairs + [(j, h) for h, j in pairs]).t()
        assert hubs_of(edge_index, n).side.size >= num_hubs
        for measure in ("cosine", "jaccard"):
            everything = counting.top(edge_index, n, n, measure=measure)
            for k in (1, 2, 3, 10, n):
                result = topk_similarity(edge_index, k, None, n, measure=measure, backend="numba")
                counting.assert_same(result, (everything[0][:, :k], everything[1][:, :k]))


@pytest.mark.parametrize("lam", [0, 1])
@pytest.mark.parametrize("num_others", [127, 128, 129, 130, 300])
def test_one_node_joined_to_all(num_others: int, lam: int) -> None:
    """As they come, at the length where skipping begins and beyond."""
    n = num_others + 1
    hub = n // 3
    others = torch.tensor([j for j in range(n) if j != hub])
    near = torch.stack([others[:-1], others[1:]])
    star = torch.stack([torch.full_like(others, hub), others])
    for edges in (star, torch.cat([star, near], dim=1)):
        edge_index = torch.cat([edges, edges.flip(0)], dim=1)
        assert (hubs_of(edge_index, n, lam).side.size > 0) == (num_others + lam > 128)
        for loop in (True, False):
            for k in (1, 4, 40):
                result = topk_similarity(edge_index, k, lam=lam, loop=loop, backend="numba")
                counting.assert_same(result, counting.top(edge_index, k, n, lam, loop=loop))


def test_a_hub_on_one_side_only() -> None:
    """Of a directed graph: all point to one node, or one points to all."""
    n = 200
    others = torch.arange(1, n)
    extra = torch.stack([others, others.roll(-7)])
    for hub_first in (True, False):
        star = torch.stack([torch.zeros_like(others), others])
        star = star if hub_first else star.flip(0)
        for edge_index in (star, torch.cat([star, extra], dim=1)):
            found = hubs_of(edge_index, n)
            # By the columns of its rows, or by the rows of its columns.
            assert found.side.tolist() == ([1] if hub_first else [0])
            for measure in ("cosine", "jaccard"):
                for k in (1, 3, 250):
                    result = topk_similarity(
                        edge_index, k, None, n, measure=measure, backend="numba"
                    )
                    counting.assert_same(result, counting.top(edge_index, k, n, measure=measure))


def test_the_masks_name_the_members_of_the_lists() -> None:
    """Shortest list first, in the numbers of the plan."""
    rng = Random(5)
    n = 400
    edge_index = with_hubs(rng, n, 6, True)
    description, found = described(edge_index, n), hubs_of(edge_index, n)
    lengths = (found.ptr[:, 1] - found.ptr[:, 0]).tolist()
    assert lengths == sorted(lengths)
    assert len(lengths) >= 6
    assert min(lengths) > found.length == plan.SHORTEST_HUB
    for bit, (first, last) in enumerate(found.ptr):
        lists = [description.lists, description.back_lists][found.side[bit]]
        members = np.zeros(n, bool)
        members[lists.col[first:last]] = True
        assert (((found.mask >> np.uint64(bit)) & np.uint64(1) != 0) == members).all()


def test_a_star_with_a_million_leaves() -> None:
    """More than 10^12 products, none of which are looked at but the first few of each row."""
    leaves = 1_000_000
    hub = 500_000
    others = torch.arange(leaves + 1)
    others = others[others != hub]
    edges = torch.stack([torch.full_like(others, hub), others])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    values, index = topk_similarity(edge_index, 4, backend="numba")
    assert torch.equal(index[others], torch.arange(4).expand(leaves, 4))
    assert index[hub].tolist() == [hub, -1, -1, -1]
    assert (values[others] == 1).all()
    assert values[hub].tolist() == [1, 0, 0, 0]


def test_popcount() -> None:
    rng = Random(6)
    words = [0, 1, 2**63, 2**64 - 1, 2**32, 2**31, *(rng.randrange(2**64) for _ in range(200))]
    for word in words:
        assert hubs.popcount(np.uint64(word)) == bin(word).count("1")


def test_hub_visits() -> None:
    """All lists but the longest are read to the end; of that, what a full row takes."""
    lengths = np.array([3, 10, 50])
    mask = np.array([0b000, 0b001, 0b011, 0b110, 0b111, 0b100], np.uint64)
    visits = np.array([5, 5, 5, 5, 5, 100], np.int64)
    ids = np.array([5, 0, 1, 2, 3, 4], np.int32)
    hubs.hub_visits(mask[[1, 2, 3, 4, 5, 0]], lengths, 4, ids, visits, 0, 6)
    assert visits.tolist() == [
        5,
        5 + 3,
        5 + 3 + min(10, 8 + 4),
        5 + 10 + min(50, 15 + 4),
        5 + 13 + min(50, 18 + 4),
        100 + 50,
    ]
