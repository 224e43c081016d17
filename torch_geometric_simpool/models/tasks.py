"""The losses of the tasks that a network is trained for."""

import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.utils.checks import check_choice, check_labels, is_labels, shape

TASKS = ("classification", "multilabel", "regression")


def task_loss(task: str, logits: Tensor, y: Tensor) -> Tensor:
    """Returns the mean loss of the outputs `[B, C]`.

    ======================  =============================  ============================
    `task`                  `y`                            loss
    ======================  =============================  ============================
    `'classification'`      classes, `[B]`, integers       cross entropy
    `'multilabel'`          zeros and ones, `[B, C]`       binary cross entropy
    `'regression'`          `[B, C]`, or `[B]` if C = 1    mean squared error
    ======================  =============================  ============================
    """
    check_choice("task", task, TASKS)
    if task == "classification":
        if not is_labels(y) or y.size(0) != logits.size(0):
            raise ValueError(
                f"`y` must hold classes, integers of shape [{logits.size(0)}], for the task "
                f"'classification', got {y.dtype} of shape {shape(y)}"
            )
        check_labels("y", y, logits.size(1))
        return F.cross_entropy(logits, y.long())
    if y.dim() == 1 and logits.size(1) == 1:
        y = y.unsqueeze(1)
    if y.shape != logits.shape:  # would be broadcast
        raise ValueError(f"`y` must have shape {shape(logits)}, got {shape(y)}")
    y = y.to(logits.dtype)
    if task == "multilabel":
        return F.binary_cross_entropy_with_logits(logits, y)
    return F.mse_loss(logits, y)
