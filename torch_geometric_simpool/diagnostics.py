"""A callback that tells what the assignments of a model do while it is trained."""

import inspect
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.batching import from_adj_t
from torch_geometric_simpool.layer import SimPool
from torch_geometric_simpool.locality import Locality, locality
from torch_geometric_simpool.losses import cluster_loss, entropy_loss
from torch_geometric_simpool.pooling import SimPoolOutput
from torch_geometric_simpool.tensorboard import summary_writer


class Diagnostics:
    """Watches the :class:`SimPool` layers of a model, and averages what they do.

    ===================  ======================================================
    of every layer       L_E and L_C, `entropy_loss` and `cluster_loss`;
                         `clusters`, how many have a node; `evenness`
    of layers on sparse  `edges_inside`, `edges_by_chance`, `connected` and, with
    batches also         `distances`, `distance_ratio`: see :func:`locality`
    ===================  ======================================================

    A figure is the mean over all graphs seen since the last :meth:`figures`. Hooks see
    what the layers see, so the training loop stays as it is. By default they look only
    while a layer is in evaluation mode: a pass over the validation graphs is measured,
    and training costs nothing.

    Args:
        model: A module with :class:`SimPool` layers in it, or such a layer.
        log_dir: Where to write for TensorBoard, or `None` not to.
        training: Whether to look at layers in training mode too.
        distances: Whether to measure geodesic distances, in `O(n (n + E))` a graph.
        prefix: What the names in TensorBoard begin with.

    Raises:
        TypeError: `model` is not a module.
        ValueError: There is no :class:`SimPool` layer in it.
        ImportError: `log_dir` is given, and TensorBoard is not installed.

    The measures are computed on the CPU, so looking synchronises. Close it, or use it in a
    `with` statement, to take the hooks off.

    Source: what the figures of Shulman (2020) show per epoch, and :func:`locality`.

    Example:
        >>> from torch_geometric.nn import MLP
        >>> pool = SimPool(MLP([4, 8, 3], norm=None), k=4).eval()
        >>> with Diagnostics(pool) as diagnostics:
        ...     _ = pool(torch.randn(10, 2), torch.randint(0, 10, (2, 30)))
        ...     sorted(diagnostics.figures(epoch=1)[""])[:3]
        ['cluster_loss', 'clusters', 'connected']
    """

    def __init__(
        self,
        model: torch.nn.Module,
        log_dir: Union[str, Path, None] = None,
        training: bool = False,
        distances: bool = True,
        prefix: str = "simpool",
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}")
        layers = {n: m for n, m in model.named_modules() if isinstance(m, SimPool)}
        if not layers:
            raise ValueError(f"`model` must have a SimPool layer, got {type(model).__name__}")
        self.training = training
        self.distances = distances
        self.prefix = prefix
        self.writer = None if log_dir is None else summary_writer(log_dir)
        #: Of every layer, what has been seen of each graph, `[B]` a batch and figure.
        self._seen: dict[str, list[dict[str, Tensor]]] = {name: [] for name in layers}
        self._hooks = [
            layer.register_forward_hook(self._hook(name), with_kwargs=True)
            for name, layer in layers.items()
        ]

    def figures(self, epoch: Optional[int] = None) -> dict[str, dict[str, float]]:
        """The figures by layer and name, since the last call; NaN where none is defined.

        With `epoch`, and a `log_dir`, they are written to TensorBoard as
        `PREFIX/LAYER/NAME`. A layer that has seen nothing has no figures.
        """
        found: dict[str, dict[str, float]] = {}
        for layer, batches in self._seen.items():
            names = batches[0] if batches else ()
            found[layer] = {
                name: torch.cat([batch[name] for batch in batches]).nanmean().item()
                for name in names
            }
            batches.clear()
        if self.writer is not None and epoch is not None:
            for layer, values in found.items():
                for name, value in values.items():
                    tag = "/".join(part for part in (self.prefix, layer, name) if part)
                    self.writer.add_scalar(tag, value, epoch)
            self.writer.flush()
        return found

    def close(self) -> None:
        """Takes the hooks off, and closes the file of TensorBoard."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self.writer is not None:
            self.writer.close()

    def __enter__(self) -> "Diagnostics":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _hook(self, name: str) -> Any:
        def look(layer: SimPool, args: Any, kwargs: Any, out: SimPoolOutput) -> None:
            if layer.training and not self.training:
                return
            given = inspect.signature(layer.forward).bind(*args, **kwargs).arguments
            with torch.no_grad():
                self._seen[name].append(self._look(given, out))

        # So that a network computes the same, bit for bit, whether somebody looks or not.
        look.reads_assignments_alone = True  # type: ignore[attr-defined]
        return look

    def _look(self, given: dict[str, Any], out: SimPoolOutput) -> dict[str, Tensor]:
        """The figures of every graph of one call."""
        s = out.s.detach().cpu()
        if given.get("edge_index") is None:
            mask = given.get("mask")
            s = s.unsqueeze(0) if s.dim() == 2 else s
            mask = torch.ones(s.shape[:2], dtype=torch.bool) if mask is None else mask.cpu()
            mask = mask.view(s.shape[:2])
            batch = mask.nonzero()[:, 0]
            s, batch_size = s[mask], s.size(0)
            edge_index = torch.empty(2, 0, dtype=torch.long)
        else:
            edge_index, batch_size = given["edge_index"], out.x.size(0)
            if is_sparse(edge_index):
                edge_index = from_adj_t(edge_index, s.size(0))[0]
            batch = given.get("batch")
            batch = torch.zeros(s.size(0), dtype=torch.long) if batch is None else batch.cpu()
        measures: Locality = locality(
            edge_index.cpu(), s.argmax(dim=-1), s.size(-1), batch, batch_size, self.distances
        )
        figures = measures._asdict()
        if given.get("edge_index") is None:
            # A pooled graph is dense, with weights: its edges say nothing about locality.
            figures = {name: figures[name] for name in ("clusters", "evenness")}
        elif not self.distances:
            del figures["distance_ratio"]
        for name, loss in (("entropy_loss", entropy_loss), ("cluster_loss", cluster_loss)):
            value = loss(s.double(), batch, batch_size=batch_size, reduction="none")
            figures[name] = value
        return figures
