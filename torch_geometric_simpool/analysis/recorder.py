"""A recorder of losses and clusters during training."""

from typing import Any, Optional

import torch
from torch import Tensor


class AssignmentRecorder:
    """Records the losses on assignments and the clusters in use, step by step.

    ================  ==========================================================================
    `entropy_loss`    L_E
    `cluster_loss`    L_C
    `clusters`        the number of clusters with a node, the mean over the graphs
    `collapsed`       the share of the graphs whose nodes all belong to one cluster
    ================  ==========================================================================

    A node belongs to the cluster with its largest entry of `s`. Recording reads values, so it
    synchronizes on a GPU.

    Example:
        >>> from torch_geometric_simpool.models import SimPoolNet
        >>> net = SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6, width=0.125)
        >>> recorder = AssignmentRecorder()
        >>> batch = torch.arange(30) // 10
        >>> edge_index = torch.stack([torch.arange(30), torch.arange(30) // 10 * 10])
        >>> recorder.add(net(torch.randn(30, 3), edge_index, batch), batch)
        >>> list(recorder.summary())[:2]
        ['level0/entropy_loss', 'level0/cluster_loss']

    For TensorBoard, write each epoch: `for name, value in recorder.summary().items():
    writer.add_scalar(name, value, epoch)`.

    Source: the plots per epoch of Shulman (2020).
    """

    def __init__(self) -> None:
        #: The metrics of each step since the last summary.
        self.steps: list[dict[str, float]] = []

    @torch.no_grad()
    def add(self, out: Any, batch: Optional[Tensor] = None) -> None:
        """Records one step.

        Args:
            out (SimPoolOutput or SimPoolNetOutput): The output of a pooling layer or of a network.
            batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`.
                (default: :obj:`None`, one graph)
        """
        step = {}
        for number, level in enumerate(getattr(out, "levels", (out,))):
            used = _clusters_in_use(level.s, batch)
            metrics = {
                "entropy_loss": level.entropy_loss,
                "cluster_loss": level.cluster_loss,
                "clusters": used.mean(),
                "collapsed": (used == 1).to(used.dtype).mean(),
            }
            step.update({f"level{number}/{name}": float(v) for name, v in metrics.items()})
        self.steps.append(step)

    def summary(self) -> dict[str, float]:
        """Returns the mean of every metric over the steps since the last call."""
        steps, self.steps = self.steps, []
        names = dict.fromkeys(name for step in steps for name in step)
        columns = {name: [step[name] for step in steps if name in step] for name in names}
        return {name: sum(column) / len(column) for name, column in columns.items()}


def _clusters_in_use(s: Tensor, batch: Optional[Tensor]) -> Tensor:
    """Returns the number of clusters with a node, of every graph with nodes, `[<= B]`."""
    if s.dim() == 3:  # padded rows are zero
        batch, node = (s.sum(dim=-1) != 0).nonzero(as_tuple=True)
        s = s[batch, node]
    elif batch is None:
        batch = torch.zeros(s.size(0), dtype=torch.long, device=s.device)
    elif batch.shape != s.shape[:1]:
        raise ValueError(
            f"`batch` must have shape [{s.size(0)}], one graph per row of `s`, got "
            f"{list(batch.shape)}"
        )
    pairs = torch.unique(torch.stack([batch, s.argmax(dim=-1)]), dim=1)
    return torch.unique(pairs[0], return_counts=True)[1].to(torch.get_default_dtype())
