"""What the operator does with assignments, entry by entry, in one pass over them each way."""

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine import team
from torch_geometric_simpool.engine.products import Parts, blocks
from torch_geometric_simpool.engine.team import ids, rows, take
from torch_geometric_simpool.engine.topk.compiled import kernel


def sums(s: Tensor, log_s: Tensor, of: Parts, batch_size: int) -> tuple[Tensor, Tensor]:
    """`sum_i s_i`, `[B, K]`, and `-sum_ik s_ik log(s_ik)`, `[B]`, over the nodes of each graph."""
    found = s.new_empty(of.graph.size, 2, s.size(1))
    given = (torch.from_numpy(of.bounds), s, log_s, found.flatten(1))
    team.run(_sums, given, blocks(of, s.numel()), s.numel())
    out = s.new_zeros(batch_size, 2, s.size(1))
    out.index_add_(0, torch.from_numpy(of.graph), found)
    return out[:, 0], out[:, 1].sum(dim=-1).neg_()


def through_softmax(
    change: Tensor, s: Tensor, log_s: Tensor, of_sum: Tensor, of_entropy: Tensor, of: Parts
) -> Tensor:
    r"""The gradient that reaches the logits, written over `change`.

    .. math::
        s_{ik} (v_{ik} - \sum\nolimits_l s_{il} v_{il}), \quad
        v_{ik} = \mathrm{change}_{ik} + \mathrm{of\_sum}_{gk} - \mathrm{of\_entropy}_g \log s_{ik}

    for the nodes `i` of graph `g`; without a logarithm where `s` is 0.

    Args:
        change: What reaches `s`, `[N, K]`, contiguous.
        s, log_s: `S` and its logarithm, finite where `s` is 0, `[N, K]`, contiguous.
        of_sum: What reaches each sum over a graph, `[B, K]`.
        of_entropy: What reaches each entropy of a graph, `[B]`.
        of: The parts of the graphs.
    """
    per_graph = torch.cat([of_sum, of_entropy.unsqueeze(-1)], dim=1)
    bounds, graph = torch.from_numpy(of.bounds), torch.from_numpy(of.graph)
    given = (bounds, graph, s, log_s, per_graph, change)
    team.run(_through_softmax, given, blocks(of, s.numel()), s.numel())
    return change


def _sums_32(data):
    _sums_of(data, np.float32)


def _sums_64(data):
    _sums_of(data, np.float64)


_sums = {torch.float32: _sums_32, torch.float64: _sums_64}


@kernel
def _sums_of(data, dtype):
    bounds = ids(data, 0)
    s, log_s, out = rows(data, 1, dtype), rows(data, 2, dtype), rows(data, 3, dtype)
    num_clusters = s.shape[1]
    start, end = take(data)
    while start >= 0:
        for part in range(start, end):
            total, entropy = out[part, :num_clusters], out[part, num_clusters:]
            for k in range(num_clusters):
                total[k] = entropy[k] = 0
            for i in range(bounds[part], bounds[part + 1]):
                own, log_own = s[i], log_s[i]
                for k in range(num_clusters):
                    total[k] += own[k]
                for k in range(num_clusters):
                    entropy[k] += own[k] * log_own[k]
        start, end = take(data)


def _through_softmax_32(data):
    _through_softmax_of(data, np.float32)


def _through_softmax_64(data):
    _through_softmax_of(data, np.float64)


_through_softmax = {torch.float32: _through_softmax_32, torch.float64: _through_softmax_64}


@kernel
def _through_softmax_of(data, dtype):
    bounds, graph = ids(data, 0), ids(data, 1)
    s, log_s = rows(data, 2, dtype), rows(data, 3, dtype)
    per_graph, change = rows(data, 4, dtype), rows(data, 5, dtype)
    num_clusters = s.shape[1]
    start, end = take(data)
    while start >= 0:
        for part in range(start, end):
            added, per_entropy = per_graph[graph[part]], per_graph[graph[part], num_clusters]
            for i in range(bounds[part], bounds[part + 1]):
                own, log_own, out = s[i], log_s[i], change[i]
                for k in range(num_clusters):
                    out[k] = own[k] * (out[k] + added[k] - per_entropy * log_own[k])
                total = dtype(0)
                for k in range(num_clusters):
                    total += out[k]
                for k in range(num_clusters):
                    out[k] -= own[k] * total
        start, end = take(data)
