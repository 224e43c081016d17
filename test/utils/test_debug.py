"""Checks of values that run in PyG's debug mode alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric
from torch import Tensor

from torch_geometric_simpool import (
    cluster_loss,
    cluster_mask,
    dense_sim_pool,
    entropy_loss,
    map_indices,
    sim_pool,
)

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X, S, HALVES = torch.ones(3, 2), torch.zeros(3, 2), torch.full((3, 2), 0.5)


def with_nan(value: Tensor) -> Tensor:
    value = value.clone()
    value[1, 0] = torch.nan
    return value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sim_pool(with_nan(X), EDGES, S), "`x` must not hold NaN, got 1"),
        (lambda: sim_pool(X, EDGES, with_nan(S)), "`s` must not hold NaN, got 1"),
        (lambda: dense_sim_pool(with_nan(X), torch.ones(3, 3), S), "`x` must not hold NaN"),
        (lambda: dense_sim_pool(X, torch.ones(3, 3), with_nan(S)), "`s` must not hold NaN"),
        (lambda: cluster_mask(with_nan(HALVES)), "`s` must not hold NaN"),
        (lambda: map_indices(with_nan(HALVES), EDGES[:, :3].t(), 3), "`values` must not hold NaN"),
        (lambda: entropy_loss(2 * HALVES), r"`s` must .* sum to one, got rows .* off by up to 1"),
        (lambda: cluster_loss(HALVES / 2), r"`s` must .* sum to one, got rows .* off by up to 0.5"),
    ],
)
def test_values(call: Callable[[], Any], message: str) -> None:
    call()
    with torch_geometric.debug(), pytest.raises(ValueError, match=message):
        call()


def test_what_is_right_passes() -> None:
    padded = torch.stack([HALVES, 9 * HALVES])
    mask = torch.tensor([[True] * 3, [False] * 3])
    with torch_geometric.debug():
        sim_pool(X, EDGES, S.index_fill(1, torch.tensor([0]), -torch.inf))
        entropy_loss(HALVES)
        entropy_loss(padded, mask=mask)
        dense_sim_pool(
            torch.stack([X, X * torch.nan]),
            torch.ones(2, 3, 3),
            torch.stack([S, S * torch.nan]),
            mask,
        )
