"""The output of the classifier, and the losses of the tasks that it is trained for."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.utils.checks import check_choice, check_labels, is_labels, shape
from torch_geometric_simpool.utils.export import exportable

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


@exportable
class SimPoolNetOutput(NamedTuple):
    """The output of :class:`SimPoolNet`."""

    logits: Tensor  #: The output of the last layer, `[B, num_classes]`.
    entropy_loss: Tensor  #: L_E, the sum over the levels.
    cluster_loss: Tensor  #: L_C, the sum over the levels.
    levels: tuple[SimPoolOutput, SimPoolOutput]  #: The pooled graphs of each level.

    def loss(
        self,
        y: Tensor,
        entropy_scaler: float = 1.0,
        cluster_scaler: float = 1.0,
        task: str = "classification",
    ) -> Tensor:
        """Returns the loss of the task, plus the scaled losses on the assignments.

        Args:
            y (torch.Tensor): The targets: for `'classification'` the classes, `[B]`; for
                `'multilabel'` zeros and ones, `[B, num_classes]`; for `'regression'` numbers,
                `[B, num_classes]`, or `[B]` if `num_classes` is 1.
            entropy_scaler (float, optional): The factor of L_E. (default: :obj:`1.0`)
            cluster_scaler (float, optional): The factor of L_C. (default: :obj:`1.0`)
            task (str, optional): `'classification'` (cross entropy), `'multilabel'` (binary cross
                entropy) or `'regression'` (mean squared error).
                (default: :obj:`"classification"`)

        Raises:
            ValueError: If `y` does not fit the task.
        """
        loss = task_loss(task, self.logits, y)
        return loss + entropy_scaler * self.entropy_loss + cluster_scaler * self.cluster_loss
