"""Checks of arguments at the public functions.

A check returns the checked value. It raises `TypeError` for a wrong type and `ValueError` for a
wrong value or shape, with the message "`name` must ..., got ...".

Types, shapes and devices are always checked. Checks of values (the range of node ids, infinite
values) read the whole tensor and synchronize on a GPU. They are skipped while
:func:`torch.compile` traces, and if `check_values` is false.
"""

import math
import numbers
from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor

#: The sizes of a tensor. A letter stands for any size, and equal letters for equal sizes.
Shape = tuple[Union[int, str], ...]

#: The largest number of elements that PyTorch reduces on one thread. On a busy machine, more
#: threads take milliseconds. Afterwards they wait in a loop, and delay the threads of a top k.
SINGLE = (1 << 15) - 1


def shape(tensor: Tensor) -> str:
    """Returns the shape in the form of docstrings, for example `[2, 5]`."""
    return str(list(tensor.shape))


def check_int(name: str, value: Any, low: int) -> int:
    """Returns an integer that is at least `low`, and no boolean."""
    expected = f"`{name}` must be an integer >= {low}"
    size = isinstance(value, torch.SymInt)  # of a tensor, while torch.export traces
    if not size and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise TypeError(f"{expected}, got {value!r} of type {type(value).__name__}")
    if value < low:
        raise ValueError(f"{expected}, got {value}")
    return value if size else int(value)


def check_real(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Returns a finite number in `[low, high]`."""
    bound = f"in [{low:g}, {high:g}]" if high < math.inf else f">= {low:g}"
    expected = f"`{name}` must be a finite number {bound}"
    if isinstance(value, bool) or not isinstance(value, (int, float, numbers.Real)):
        raise TypeError(f"{expected}, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        raise ValueError(f"{expected}, got an integer beyond all floats") from None
    # A compiler can trace these comparisons. NaN fails the first one.
    if not low <= number <= high or number == math.inf:
        raise ValueError(f"{expected}, got {value}")
    return number


def check_bool(name: str, value: Any) -> bool:
    """Returns a boolean. Integers are not accepted."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}")
    return value


def check_choice(name: str, value: Any, choices: tuple[Optional[str], ...]) -> Any:
    """Returns one of `choices`, names or `None`."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_dense(
    name: str,
    value: Any,
    *shapes: Shape,
    device: Optional[torch.device] = None,
    of: str = "edge_index",
) -> Tensor:
    """Returns a dense tensor of real numbers.

    It must have one of the `shapes`, if any, and be on the `device` of the argument `of`, if given.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a torch.Tensor, got {type(value).__name__}")
    if value.layout != torch.strided:
        raise TypeError(f"`{name}` must be a dense tensor, got layout {value.layout}")
    if value.is_complex():
        raise TypeError(f"`{name}` must be real, got {value.dtype}")
    if shapes and not any(_has_shape(value, expected) for expected in shapes):
        written = " or ".join(f"[{', '.join(map(str, expected))}]" for expected in shapes)
        raise ValueError(f"`{name}` must have shape {written}, got {shape(value)}")
    check_device(name, value, device, of)
    return value


def _has_shape(value: Tensor, expected: Shape) -> bool:
    if value.dim() != len(expected):
        return False
    size_of: dict[str, int] = {}  # by letter; symbolic sizes have no hash
    for size, actual in zip(expected, value.shape):
        if actual != (size_of.setdefault(size, actual) if isinstance(size, str) else size):
            return False
    return True


def check_floating(name: str, value: Any, *shapes: Shape, **device: Any) -> Tensor:
    """Returns a dense floating-point tensor; see :func:`check_dense`."""
    if not check_dense(name, value, *shapes, **device).is_floating_point():
        raise TypeError(f"`{name}` must be floating point, got {value.dtype}")
    return value


def check_integral(name: str, value: Any, *shapes: Shape, **device: Any) -> Tensor:
    """Returns a dense tensor of integers as int64; see :func:`check_dense`."""
    if not is_integral(check_dense(name, value, *shapes, **device).dtype):
        hint = f"for a mask, use {name}.nonzero().view(-1)"
        if value.dtype != torch.bool:
            hint = "convert it by .long(), after missing values have been dropped"
        raise TypeError(f"`{name}` must hold integers (torch.long), got {value.dtype}: {hint}")
    return value.long()


def is_integral(dtype: torch.dtype) -> bool:
    """Returns whether a type is an integer type. `torch.bool` is not."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def check_device(name: str, value: Tensor, device: Optional[torch.device], of: str) -> None:
    """Raises unless a tensor is on the device of the argument `of`, if it is given."""
    if device is not None and value.device != device:
        raise ValueError(f"`{name}` must be on the device of `{of}`, {device}, got {value.device}")


def _parts(value: Tensor) -> Sequence[Tensor]:
    """Returns the parts of a tensor that PyTorch reduces on one thread; on a GPU, the tensor."""
    large = value.is_cpu and value.numel() > SINGLE
    return value.reshape(-1).split(SINGLE) if large else [value]


def check_range(name: str, value: Tensor, size: int, kind: str) -> None:
    """Raises unless integers are in `[0, size)`."""
    if value.numel() > 0:
        bounds = [int(bound) for part in _parts(value) for bound in part.aminmax()]
        low, high = min(bounds), max(bounds)
        if low < 0 or high >= size:
            wrong = low if low < 0 else high
            hint = ""
            if wrong == -1 and kind in ("node ids", "source ids", "destination ids"):
                hint = ": -1 is an empty place of a top k, or a name that pandas did not find"
            raise ValueError(f"`{name}` must hold {kind} in [0, {size}), got {wrong}{hint}")


def check_finite(name: str, value: Tensor, check_values: bool = True) -> None:
    """Raises if a value is NaN or infinite."""
    if not check_values or torch.compiler.is_compiling():
        return
    # The sum is a fast pass without a temporary tensor. It is not finite if a value is not finite,
    # or if it overflows, so the values are then checked one by one.
    if all(math.isfinite(part.sum()) for part in _parts(value.detach())):
        return
    bad = int((~value.isfinite()).sum())
    if bad > 0:
        raise ValueError(
            f"`{name}` must be finite in {value.dtype}, got {bad} NaN or infinite values"
        )


def cast_finite(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns finite numbers in another type. Numbers on a CPU must stay finite."""
    converted = value.to(dtype)
    if converted.element_size() < value.element_size():
        check_finite(name, converted, value.is_cpu)
    return converted


def check_mask(
    value: Any, expected: tuple[int, ...], device: torch.device, of: str
) -> Optional[Tensor]:
    """Returns a boolean tensor of the expected shape, on the device of `of`, or `None`."""
    if value is not None:
        check_dense("mask", value, expected, device=device, of=of)
        if value.dtype != torch.bool:
            raise TypeError(f"`mask` must be of type torch.bool, got {value.dtype}")
    return value


def check_batch(
    value: Any,
    num_nodes: int,
    batch_size: Optional[int],
    device: torch.device,
    check_values: bool = True,
    of: str = "edge_index",
    edge_index: Optional[Tensor] = None,
) -> tuple[Tensor, int]:
    """Returns the graph of each node, `[N]`, int64, and the number of graphs.

    The number of graphs is one more than the largest entry if `batch_size` is `None`. Entries are
    not checked if `batch_size` is given and `check_values` is false. No edge may join two graphs.

    Args:
        value: The argument `batch`, or `None` for one graph.
        num_nodes: The number of nodes.
        batch_size: The argument `batch_size`.
        device: The device of the argument `of`.
        check_values: Whether values are checked.
        of: The name of the argument that has the nodes.
        edge_index: The edges to check, with ids in range, or `None`.
    """
    if batch_size is not None:
        batch_size = check_int("batch_size", batch_size, 0)
    if value is None:
        if batch_size not in (None, 1):
            raise ValueError(f"`batch` must be given for a `batch_size` of {batch_size}, got None")
        return torch.zeros(num_nodes, dtype=torch.long, device=device), 1
    value = check_integral("batch", value, (num_nodes,), device=device, of=of)
    if batch_size is None:
        highest = value.max().item() if num_nodes > 0 else -1
        torch._check(highest >= -1)
        batch_size = highest + 1
    if check_values and not torch.compiler.is_compiling():
        check_range("batch", value, batch_size, "graph ids below `batch_size`,")
        if edge_index is not None and batch_size > 1:
            source, target = value[edge_index]
            if not torch.equal(source, target):
                edge = int((source != target).nonzero()[0])
                raise ValueError(
                    "`edge_index` must join nodes of one graph, got an edge from graph "
                    f"{int(source[edge])} to graph {int(target[edge])} (column {edge})"
                )
    return value, batch_size
