"""The bytes that the kernels of a plan read and write, from the plan alone: no GPU is needed.

What a kernel asks for is counted, whether it comes from memory or from a cache. What a plan does
not tell is counted at its most: each product has a norm of its own, and hubs are read to the end;
but a slot of a table is found at once. Descriptions and plan, which PyTorch computes, are not
counted.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.triton.arrays import Descriptions, Prepared
from torch_geometric_simpool.engine.triton.plan import Plan, bytes_per_slot, make_plan, table_sizes

_LONG = torch.long.itemsize


class Traffic(NamedTuple):
    """The bytes of one kernel, over all its programs."""

    kernel: str
    read: int
    written: int


def count(
    prepared: Prepared, nodes: Optional[Tensor], k: int, value_bytes: int
) -> tuple[list[Traffic], int, int]:
    """The traffic of each kernel, and two bounds from below: with the lists of hubs, and without.

    A bound is the bytes of each list that a row names, once, and of the output, once.
    """
    plan, descriptions = make_plan(prepared, nodes, k), prepared.descriptions
    entry, row_bytes = _per_listed(descriptions), k * (value_bytes + _LONG)
    products, skipped = _of(prepared.products, nodes), _of(prepared.skipped, nodes)
    without = int(products.sum()) * entry + plan.work.numel() * row_bytes
    with_hubs = without + int(skipped.sum()) * entry
    kernels = [
        _hubs(prepared, plan),
        _short(descriptions, products, plan, nodes, row_bytes),
        *_long(descriptions, products, plan, nodes, row_bytes),
    ]
    return [one for one in kernels if one.read + one.written > 0], with_hubs, without


def _of(values: Tensor, nodes: Optional[Tensor]) -> Tensor:
    return values if nodes is None else values[nodes]


def _hubs(prepared: Prepared, plan: Plan) -> Traffic:
    """Each group reads an id, a norm and a mask of the members of its hubs."""
    hubs, groups = prepared.hubs, plan.groups
    if hubs is None or groups is None:
        return Traffic("best_of_hubs", 0, 0)
    read = 0
    id_bytes = hubs.ids.dtype.itemsize
    for hub, length in enumerate(hubs.ptr.diff().tolist()):
        named = int(((groups.mask >> hub) & 1).sum())
        read += named * length * (2 * id_bytes + _LONG)
    num_groups = groups.mask.numel()
    return Traffic("best_of_hubs", read, num_groups * plan.num_best * id_bytes)


def _per_listed(descriptions: Descriptions) -> int:
    """The bytes of an entry of a list."""
    return descriptions.lists.col.dtype.itemsize + (8 if descriptions.weighted else 0)


def _per_candidate(descriptions: Descriptions) -> int:
    """The bytes of the norm and the scale of a candidate."""
    scale = 8 if descriptions.jaccard and not descriptions.exact else 0
    return descriptions.norm2.dtype.itemsize + scale


def _per_entry(descriptions: Descriptions) -> int:
    """The bytes of an entry of a row: the feature, and where its list begins and ends."""
    return descriptions.rows.col.dtype.itemsize + (8 if descriptions.weighted else 0) + 2 * _LONG


def _short(
    descriptions: Descriptions,
    products: Tensor,
    plan: Plan,
    nodes: Optional[Tensor],
    row_bytes: int,
) -> Traffic:
    read = written = 0
    degree = _of(descriptions.rows.lengths, nodes)
    product = _per_listed(descriptions) + _per_candidate(descriptions)
    for _, places in plan.short:
        found, rows = int(products[places].sum()), places.numel()
        read += found * product + rows * (4 * _LONG)
        read += int(degree[places].sum()) * _per_entry(descriptions)
        if plan.groups is not None:
            read += _masks(descriptions, products, places, plan)
        written += rows * row_bytes
    return Traffic("short_rows", read, written)


def _masks(
    descriptions: Descriptions,
    products: Tensor,
    places: Tensor,
    plan: Plan,
) -> int:
    """The bytes of the hubs of rows and candidates, and of the best of the groups."""
    assert plan.groups is not None
    hubbed = places[plan.groups.of_place[places] >= 0]
    ids = descriptions.lists.col.dtype.itemsize
    candidates = int(products[hubbed].sum()) + hubbed.numel() * plan.num_best
    added = hubbed.numel() * plan.num_best * (ids + descriptions.norm2.dtype.itemsize)
    return 2 * _LONG * places.numel() + candidates * _LONG + added


def _long(
    descriptions: Descriptions,
    products: Tensor,
    plan: Plan,
    nodes: Optional[Tensor],
    row_bytes: int,
) -> list[Traffic]:
    """A product reads and writes its slot; tables are written, and read, from end to end."""
    places, slot = plan.long, bytes_per_slot(descriptions)
    found = int(products[places].sum())
    slots = sum(table_sizes(plan, descriptions.num_nodes))
    degree = _of(descriptions.rows.lengths, nodes)[places]
    norms = min(found, slots) * _per_candidate(descriptions)
    entries = int(degree.sum()) * _per_entry(descriptions)
    masks = 0
    if plan.groups is not None and places.numel() > 0:
        masks = _masks(descriptions, products, places, plan)
    listed = found * _per_listed(descriptions)
    return [
        Traffic("empty tables", 0, slots * slot),
        Traffic("fill_tables", listed + found * slot + entries, found * slot),
        Traffic("best_of_tables", slots * slot + norms + masks, places.numel() * row_bytes),
    ]
