"""Whether an operation written by hand, in one piece, may take the place of PyTorch's own."""

from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
from torch import Tensor


def fusible(*tensors: Tensor) -> bool:
    """Whether such operations serve: on a CPU, in one type, none empty, outside of a trace."""
    return (
        all(tensor.device.type == "cpu" and tensor.numel() > 0 for tensor in tensors)
        and len({tensor.dtype for tensor in tensors}) == 1
        and tensors[0].dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


def plain_backward(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[Optional[Tensor]],
) -> tuple[Optional[Tensor], ...]:
    """The backward pass of `function`, by operations of PyTorch, for second derivatives.

    Args:
        function: What was computed, as operations that differentiate themselves.
        inputs: Its arguments.
        needed: Which of them need a gradient.
        grads: What reaches its outputs.
    """
    # Aliases, since an input may be made of another, or be the same: what reaches one by way
    # of another is not this function's to return.
    inputs = [t.view_as(t) if need else t for t, need in zip(inputs, needed)]
    wanted = [tensor for tensor, need in zip(inputs, needed) if need]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = [(o, grad) for o, grad in zip(outputs, grads) if grad is not None and o.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(t) if need else None for t, need in zip(inputs, needed))
    found = torch.autograd.grad(
        [output for output, _ in pairs],
        wanted,
        [grad for _, grad in pairs],
        create_graph=True,
        materialize_grads=True,
    )
    left = iter(found)
    return tuple(next(left) if need else None for need in needed)
