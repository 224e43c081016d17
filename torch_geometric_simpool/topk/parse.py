"""The arguments of a sparse top k, checked; and what computes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.functional.similarity import MEASURES
from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.budget import (
    Budget,
    TooExpensiveError,
    exceeds_output,
    format_bytes,
    free_memory,
)
from torch_geometric_simpool.topk.spec import (
    BACKENDS,
    SPARSE_MEASURES,
    EdgeList,
    Selection,
    SimilaritySpec,
    TopKSettings,
)
from torch_geometric_simpool.utils.checks import (
    check_bipartite,
    check_bipartite_edge_index,
    check_bool,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_ids,
    check_int,
    check_real,
)


class Request(NamedTuple):
    """A graph, how its nodes are compared, and what compares them."""

    edges: EdgeList
    spec: SimilaritySpec
    backend: str

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        return self.edges.dtype


def parse_edges(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: Union[int, tuple[int, int], None],
    settings: TopKSettings,
    candidates: Optional[Tensor] = None,
) -> tuple[EdgeList, Optional[Tensor]]:
    """Returns the edges, and which nodes are candidates, `[N]`, boolean, or `None`."""
    num_dst: Optional[int] = None
    if isinstance(num_nodes, (tuple, list)):
        edge_index, (num_nodes, num_dst) = check_bipartite_edge_index(edge_index, num_nodes)
        for name, value, only in (("p", settings.p, 1), ("lam", settings.lam, 0)):
            check_bipartite(name, value, only)
    else:
        edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    device = edge_index.device
    check_node_arrays(max(num_nodes, num_dst or 0), device)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), device=device)
    get_backend(settings.backend, device)
    edges = EdgeList(edge_index, edge_weight, num_nodes, num_dst)
    ids = check_nodes("candidates", candidates, edges)
    if ids is None:
        return edges, None
    allowed = torch.zeros(edges.num_nodes, dtype=torch.bool, device=device)
    allowed[ids] = True
    return edges, allowed


def check_request(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: Union[int, tuple[int, int], None],
    p: int,
    lam: float,
    measure: str,
    max_degree: Optional[int],
    candidates: Optional[Tensor],
    backend: str,
) -> Request:
    """Parses the arguments of :func:`estimate_topk` and of :class:`SimilarityIndex`."""
    settings = TopKSettings(p, lam, measure, max_degree=max_degree, backend=backend)
    edges, allowed = parse_edges(edge_index, edge_weight, num_nodes, settings, candidates)
    if backend == "auto":
        backend = "numba" if edges.edge_index.device.type == "cpu" else "torch"
    spec = SimilaritySpec(settings.p, settings.lam, measure, settings.max_degree, allowed)
    return Request(edges, spec, backend)


def check_node_arrays(num_nodes: int, device: torch.device) -> None:
    """Raises if arrays over so many nodes cannot be allocated, whatever is computed."""
    needed = 2 * 8 * num_nodes
    if exceeds_output(needed, device):
        raise TooExpensiveError(
            "`num_nodes` must be such that arrays of so many numbers fit into memory, got "
            f"{num_nodes}, which take {format_bytes(needed)} or more where "
            f"{format_bytes(free_memory(device))} are free: if few of these nodes have edges, "
            "number those from 0"
        )


def check_description(p: Any, lam: Any, measure: Any, max_degree: Any, backend: Any) -> None:
    """Checks the arguments that say how nodes are compared, and by what."""
    check_int("p", p, 1)
    check_real("lam", lam, 0.0)
    if max_degree is not None:
        check_int("max_degree", max_degree, 0)
    check_choice("backend", backend, BACKENDS)
    if isinstance(measure, str) and measure in set(MEASURES) - set(SPARSE_MEASURES):
        raise ValueError(
            f"`measure` must be one of {', '.join(map(repr, SPARSE_MEASURES))} for a sparse top k, "
            f"got {measure!r}, which has no sparse form: use structural_similarity, which is dense"
        )
    check_choice("measure", measure, SPARSE_MEASURES)


def check_selection(k: Any, loop: Any = True, min_similarity: Optional[Any] = None) -> Selection:
    """Checks the arguments that say which candidates take a place."""
    check_int("k", k, 1)
    check_bool("loop", loop)
    if min_similarity is not None:
        min_similarity = check_real("min_similarity", min_similarity, -1.0, 1.0)
    return Selection(int(k), loop, min_similarity)


def check_budget(memory_budget: Optional[int], force: bool) -> Budget:
    """Checks the arguments that limit the cost."""
    if memory_budget is not None:
        check_int("memory_budget", memory_budget, 1)
    return Budget(memory_budget, check_bool("force", force))


def check_nodes(name: str, value: Optional[Tensor], graph: EdgeList) -> Optional[Tensor]:
    """Ids of nodes of a graph, `[M]`, on its device, at least one; or `None`."""
    if value is None:
        return None
    return check_ids(name, value, graph.num_nodes, graph.edge_index.device)


def output_bytes(num_rows: int, k: int, dtype: torch.dtype) -> int:
    """The bytes of the values and the indices."""
    return num_rows * k * (dtype.itemsize + torch.long.itemsize)


@contextmanager
def refused_in_transforms() -> Iterator[None]:
    """Says so where a transform of torch.func hides the numbers: `grad` does, `vmap` may not."""
    try:
        yield
    except RuntimeError as error:
        if not torch._C._are_functorch_transforms_active():
            raise
        raise NotImplementedError(
            "a sparse top k must be computed outside of this transform of torch.func, got a call "
            "inside of it: compute it beforehand, for a layer as `sim`"
        ) from error
