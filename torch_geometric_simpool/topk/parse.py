"""Parses the arguments of the sparse top k, and checks them once."""

import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_geometric_simpool.topk.budget import ALWAYS_FREE, TooExpensiveError, free_memory
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_finite,
    check_int,
    check_integral,
    check_range,
)

#: The most bytes of the arrays over the nodes that a backend allocates, for each node.
BYTES_PER_NODE = 100

#: The bytes for each edge of a graph, sorted and transposed.
BYTES_PER_EDGE = 12

#: Further bytes for each edge of an unsorted graph, whose edges may repeat and are counted.
BYTES_PER_UNSORTED_EDGE = 10

#: The least number of edges whose mirror images are searched, if there are as many.
SAMPLE = 8

#: The types of an argument that holds ids of nodes.
NodeIds = Union[Tensor, Sequence[int], int]


def parse_edges(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: Union[int, tuple[int, int], None],
    settings: TopKSettings,
    stacklevel: int = 4,
) -> EdgeList:
    """Checks the edges of a graph, and whether the settings suit a bipartite one.

    A warning names the line that called the caller of this function. A decorator of the caller
    adds one to `stacklevel`.
    """
    check_reverse_mode(edge_weight)  # before values are read, which PyTorch 2.6 refuses
    edges = check_edges(edge_index, edge_weight, num_nodes)
    check_bipartite_settings(edges, settings)
    warn_if_one_way(edges, stacklevel)
    return edges


def check_reverse_mode(edge_weight: Any) -> None:
    """Raises `NotImplementedError` for forward-mode derivatives and :mod:`torch.func`."""
    is_dense = isinstance(edge_weight, Tensor) and edge_weight.layout == torch.strided
    if is_dense and (
        torch._C._functorch.is_functorch_wrapped_tensor(edge_weight)
        or forward_ad.unpack_dual(edge_weight).tangent is not None
    ):
        raise NotImplementedError(
            "`edge_weight` must be neither a dual tensor nor a tensor of a transform of torch.func,"
            " got one: similarities have derivatives in reverse mode alone. Compute them outside "
            "of the transform, and pass features to a layer as `sim`"
        )


def check_edges(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: Union[int, tuple[int, int], None],
) -> EdgeList:
    """Checks the edges of a graph, or of a bipartite graph if `num_nodes` are two numbers."""
    num_dst: Optional[int] = None
    if isinstance(num_nodes, (tuple, list)):
        num_nodes, num_dst = check_bipartite_sizes(num_nodes)
        edge_index, _ = check_edge_index(edge_index, 0, check_values=False)
        check_range("edge_index[0]", edge_index[0], num_nodes, "source ids")
        check_range("edge_index[1]", edge_index[1], num_dst, "destination ids")
    else:
        edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    check_node_arrays(max(num_nodes, num_dst or 0), edge_index.device)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), device=edge_index.device)
    return EdgeList(edge_index, edge_weight, num_nodes, num_dst)


def check_bipartite_settings(edges: EdgeList, settings: TopKSettings) -> None:
    """Raises if settings do not suit a bipartite graph."""
    if edges.bipartite:
        for name, only in (("p", 1), ("lam", 0), ("exclude_neighbors", False)):
            check_bipartite(name, getattr(settings, name), only)


def check_node_arrays(num_nodes: int, device: torch.device) -> None:
    """Raises if arrays over the nodes do not fit into the free memory."""
    needed = BYTES_PER_NODE * num_nodes
    if needed >= ALWAYS_FREE and needed > free_memory(device):
        raise TooExpensiveError(
            f"`num_nodes` is too large, got {num_nodes}: arrays over the nodes need {needed:_} "
            f"bytes, {free_memory(device):_} are free. If few of these nodes have edges, number "
            "those from 0",
            memory=needed,
        )


def warn_if_one_way(edges: EdgeList, stacklevel: int) -> None:
    """Warns if no edge of a sample has its mirror image, though some join different nodes.

    An undirected graph has both directions of every edge. Most directed graphs have both directions
    of some edges.
    """
    sample = edges.edge_index[:, :: max(edges.edge_index.size(1) // SAMPLE, 1)].tolist()
    pairs = [] if edges.bipartite else [(i, j) for i, j in zip(*sample) if i != j]
    row, col = edges.edge_index[0].contiguous(), edges.edge_index[1]
    if pairs and not any(is_edge(row, col, j, i) for i, j in pairs):
        warnings.warn(
            "`edge_index` names each edge in one direction only, so the graph is taken as "
            "directed. If it is undirected, pass torch_geometric.utils.to_undirected(edge_index) "
            "or use the transform ToUndirected. If it is directed, silence this warning by "
            "warnings.filterwarnings.",
            stacklevel=stacklevel,
        )


def is_edge(row: Tensor, col: Tensor, i: int, j: int) -> bool:
    """Returns whether there is an edge from `i` to `j`."""
    first, last = torch.searchsorted(row, row.new_tensor([i, i + 1])).tolist()
    # In sorted edges, bisection finds all edges of `i`. Otherwise all edges are read.
    parts = slice(first, last), slice(None)
    return any(bool(((row[part] == i) & (col[part] == j)).any()) for part in parts)


def parse_nodes(nodes: Optional[NodeIds], edges: EdgeList, name: str = "nodes") -> Optional[Tensor]:
    """Returns contiguous ids of nodes, int64, `[M]`. A tensor, a list or one id is accepted."""
    if nodes is None:
        return None
    device = nodes.device if isinstance(nodes, Tensor) else edges.device
    try:
        ids = torch.atleast_1d(torch.as_tensor(nodes, device=device))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"`{name}` must be an integer, a list of integers or a tensor of integers, got "
            f"{nodes!r}: number names by pandas.factorize"
        ) from error
    # PyTorch makes a float tensor of an empty list.
    ids = ids.long() if ids.shape == (0,) else ids
    ids = check_integral(name, ids, ("M",), device=edges.device)
    check_range(name, ids, edges.num_nodes, "node ids")
    return ids.contiguous()


def parse_candidates(candidates: Optional[NodeIds], edges: EdgeList) -> Optional[Tensor]:
    """Returns a mask of the candidates, `[N]`."""
    ids = parse_nodes(candidates, edges, "candidates")
    if ids is None:
        return None
    mask = torch.zeros(edges.num_nodes, dtype=torch.bool, device=edges.device)
    mask[ids] = True
    return mask


def check_edge_index(
    value: Any, num_nodes: Optional[int], check_values: bool = True, **device: Any
) -> tuple[Tensor, int]:
    """Returns `edge_index` as an int64 `torch.Tensor`, and the number of nodes.

    The number of nodes is one more than the largest id if `num_nodes` is `None`. Ids are not
    checked if `num_nodes` is given and `check_values` is false. For `device`, see
    :func:`check_dense`.
    """
    if not isinstance(value, Tensor):
        raise TypeError(
            f"`edge_index` must be a torch.Tensor of node numbers, got {type(value).__name__}: "
            "convert arrays with torch.as_tensor, and number nodes that have names with "
            "pandas.factorize first"
        )
    if hasattr(value, "as_tensor"):  # torch_geometric.EdgeIndex
        value = value.as_tensor()
    value = check_integral("edge_index", value, (2, "E"), **device)
    if num_nodes is None:
        num_nodes, check_values = max(int(value.max()) + 1, 0) if value.numel() > 0 else 0, True
    num_nodes = check_int("num_nodes", num_nodes, 0)
    if check_values and not torch.compiler.is_compiling():
        check_range("edge_index", value, num_nodes, "node ids")
    return value, num_nodes


def check_bipartite(name: str, value: Any, only: int) -> None:
    """Raises unless an argument has the `only` value that a bipartite graph allows."""
    if value != only:
        raise ValueError(
            f"`{name}` must be {only} for a bipartite graph, whose source nodes are not "
            f"destinations, got {value}"
        )


def check_bipartite_sizes(value: Any) -> tuple[int, int]:
    """Returns the numbers of source and destination nodes of a tuple or a list."""
    if len(value) != 2:
        raise ValueError(
            "`num_nodes` must be an integer, or the two numbers of source and destination nodes "
            f"of a bipartite graph, got {tuple(value)}"
        )
    num_src, num_dst = (check_int("num_nodes", size, 0) for size in value)
    return num_src, num_dst


def check_edge_weight(
    value: Any, num_edges: int, check_values: bool = True, device: Optional[torch.device] = None
) -> Optional[Tensor]:
    """Returns finite, real edge weights, `[E]`, of `[E]` or `[E, 1]`, or `None`.

    They must be on the `device` of the edges if it is given.
    """
    if value is None:
        return None
    check_dense("edge_weight", value, (num_edges,), (num_edges, 1), device=device)
    if value.dtype == torch.bool:
        raise TypeError(
            "`edge_weight` must hold numbers, got torch.bool. To select edges by a mask, pass "
            "edge_index[:, mask]"
        )
    if value.is_floating_point():
        check_finite("edge_weight", value, check_values)
    return value.flatten()
