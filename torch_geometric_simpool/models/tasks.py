"""What a network is trained for, and the loss that follows."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_dense,
    check_device,
    check_labels,
    is_labels,
    shape,
)


def _classification(out: Tensor, y: Tensor) -> Tensor:
    if not is_labels(y) or y.size(0) != out.size(0):
        raise ValueError(
            f"`y` must hold classes, integers (torch.long), [{out.size(0)}], got {y.dtype}, "
            f"{shape(y)}"
        )
    check_labels("y", y, out.size(1))
    return F.cross_entropy(out, y.long())


def _multilabel(out: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(out, _like(out, y))


def _regression(out: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(out, _like(out, y))


#: From the outputs, `[B, C]`, and the targets to a scalar.
TASKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "classification": _classification,
    "multilabel": _multilabel,
    "regression": _regression,
}


def task_loss(task: str, out: Tensor, y: Tensor) -> Tensor:
    """The mean loss on the outputs, `[B, C]`.

    ==================  =============================  ============================
    task                `y`                            loss
    ==================  =============================  ============================
    `'classification'`  classes, `[B]`, integers       cross entropy
    `'multilabel'`      zeros and ones, `[B, C]`       binary cross entropy
    `'regression'`      `[B, C]`, or `[B]` if C = 1    mean squared error
    ==================  =============================  ============================
    """
    check_choice("task", task, tuple(TASKS))
    check_device("y", check_dense("y", y), out.device, "logits")
    return TASKS[task](out, y)


def _like(out: Tensor, y: Tensor) -> Tensor:
    """Targets in the shape of the outputs. Others would be broadcast, without an error."""
    if y.dim() == 1 and out.size(1) == 1:
        y = y.unsqueeze(1)
    if y.shape != out.shape:
        raise ValueError(f"`y` must have shape {shape(out)}, that of the outputs, got {shape(y)}")
    return y.to(out.dtype)
