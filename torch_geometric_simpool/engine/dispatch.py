"""The only entry point to the engine: which calls take a fast path, and every threshold.

A function with a fast path is decorated with :func:`accelerate`. Its body is the plain form,
in PyTorch operations that work on any device; reading it is enough to know what is computed.
The fast path is the function of the same name in the engine's module of the same name.
Modules of the engine are imported when they are first used, since Numba takes a while to load.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional, TypeVar

import torch
from torch import Tensor

from torch_geometric_simpool.engine.operations import register
from torch_geometric_simpool.utils.checks import in_range

#: The parts of the engine: the sparse top k, and the operations behind pooling and message
#: passing; `'rows'` is for accelerators, where it adds in a fixed order.
PARTS = ("topk", "spmm", "segment_matmul", "messages", "rows")

#: Sums over edges of fewer numbers than this are left to PyTorch: they take less than a
#: millisecond, and Numba need not be loaded.
MIN_MESSAGES = 1 << 18
#: Graphs with fewer numbers than this in their rows, on average, are multiplied in blocks, as
#: one batch: a call for each of them takes longer than copying their rows.
MIN_SEGMENT = 1 << 11

Plain = TypeVar("Plain", bound=Callable[..., Any])

_disabled: list[str] = []


@contextmanager
def disabled(*parts: str) -> Iterator[None]:
    """Switches fast paths off inside a `with` statement, in the whole process.

    Results do not change, apart from rounding: use it to test them, or to check a result that you
    doubt. On a GPU, the order of sums then varies. It holds for calls made inside the statement; a
    backward pass takes the path of its forward pass, but for pooled edge features, which it
    computes again. A backend of the top k that is asked for, such as `backend='numba'`, is used
    nevertheless. So are kernels for graphs on disk.

    Args:
        *parts: Which fast paths: `'topk'`, what `backend='auto'` takes on a CPU; `'spmm'` and
            `'segment_matmul'`, the products of pooling; `'messages'`, the sums of `GMNConv`;
            `'rows'`, more sums in a fixed order, on a GPU. All of them if none is named.

    Example:
        >>> from torch_geometric_simpool import engine, topk_similarity
        >>> star = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> with engine.disabled():
        ...     values, index = topk_similarity(star, k=2)
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"`parts` must be among {', '.join(PARTS)}, got {part!r}")
    added = list(parts or PARTS)
    _disabled.extend(added)
    try:
        yield
    finally:
        for part in added:
            _disabled.remove(part)


def enabled(part: str) -> bool:
    """Whether a part of the engine may be used."""
    return part not in _disabled


def accelerate(part: str, traced: bool = True) -> Callable[[Plain], Plain]:
    """Decorates a plain function that has a fast path in the module `engine.PART`.

    The fast function, and the rule in `_RULES` that says which calls it takes, have the name of
    the plain one. It is called with the plain one, which it may need for second derivatives, and
    with the arguments.

    While PyTorch traces, to compile or to export, no values can be read. Then the call becomes one
    operation of the graph (see :mod:`~torch_geometric_simpool.engine.operations`), which takes
    either path when it runs. Eager calls are direct: an operation costs some tens of microseconds a
    call, which small batches would notice. With `traced=False`, the plain function is traced.
    """

    def decorate(plain: Plain) -> Plain:
        name = plain.__name__
        applies = _RULES[name]

        @functools.wraps(plain)
        def call(*args: Any) -> Any:
            # The order matters: a compiler must not trace the rule.
            if torch.compiler.is_compiling():
                as_operation = traced and enabled(part) and _is_operation(name, args)
                return (operation if as_operation else plain)(*args)
            if not enabled(part) or not applies(*args):
                return plain(*args)
            module = importlib.import_module(f"torch_geometric_simpool.engine.{part}")
            return getattr(module, name)(plain, *args)

        operation = register(call) if traced else plain
        return call  # type: ignore[return-value]

    return decorate


def _is_operation(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a call is traced as one operation: where a fast path is possible, by types alone."""
    if name == "sum_messages" and args[2] is not None:
        return False
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    return _computes_on_cpu([t for t in tensors if t.is_floating_point()])


# The rules: each takes the arguments of the function that it is about. Ids out of range are left to
# PyTorch, which reports them.


def _on_cpu(*tensors: Tensor) -> bool:
    """Whether they are CPU tensors of one float type, not traced, not under autocast."""
    return (
        all(t.numel() > 0 for t in tensors)
        and not torch.jit.is_tracing()
        and _computes_on_cpu(tensors)
    )


def _computes_on_cpu(tensors: Sequence[Tensor]) -> bool:
    """The same without what depends on their sizes."""
    return (
        all(t.device.type == "cpu" and t.dtype == tensors[0].dtype for t in tensors)
        and tensors[0].dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


def _on_accelerator(*tensors: Tensor) -> bool:
    """Whether they are float tensors of one type on an accelerator, not traced.

    PyTorch 2.6 has no `embedding_bag` for MPS.
    """
    return (
        all(t.numel() > 0 and t.is_floating_point() for t in tensors)
        and all(t.device.type not in ("cpu", "mps") for t in tensors)
        and all(t.dtype == tensors[0].dtype for t in tensors)
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
    )


def _spmm(
    row: Tensor, col: Tensor, x: Tensor, edge_weight: Optional[Tensor], num_rows: int
) -> bool:
    if row.numel() == 0 or num_rows == 0:
        return False
    if edge_weight is not None and edge_weight.dim() != 1:
        return False
    given = (x,) if edge_weight is None else (x, edge_weight)
    return _on_accelerator(*given) or (
        row.numel() * x.size(1) >= MIN_MESSAGES
        and _on_cpu(*given)
        and in_range(row, num_rows)
        and in_range(col, x.size(0))
    )


def _segment_matmul(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> bool:
    return (
        left.size(0) * (left.size(1) + right.size(-1)) >= MIN_SEGMENT * batch_size
        and _on_cpu(left, right)
        and batch.is_cpu
    )


def _sum_messages(
    target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> bool:
    return (
        edge is None
        and edge_index.size(1) * target.size(1) >= MIN_MESSAGES
        and target.shape == source.shape
        and _on_cpu(target, source)
        and in_range(edge_index, target.size(0))
    )


def _sum_messages_backward(
    grad: Tensor, target: Tensor, source: Tensor, edge_index: Tensor
) -> bool:
    return _on_cpu(grad) and _sum_messages(target, source, None, edge_index)


def _take_rows(x: Tensor, index: Tensor) -> bool:
    return _on_accelerator(x) and index.numel() > 0


def _sum_rows(x: Tensor, index: Tensor, num_rows: int) -> bool:
    return _on_accelerator(x) and num_rows > 0


_RULES: dict[str, Callable[..., bool]] = {
    "spmm": _spmm,
    "segment_matmul": _segment_matmul,
    "segment_matmul_t": _segment_matmul,
    "sum_messages": _sum_messages,
    "sum_messages_backward": _sum_messages_backward,
    "take_rows": _take_rows,
    "sum_rows": _sum_rows,
}
