"""A callback that records metrics of the assignments of a model, during training or after."""

import inspect
import warnings
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.analysis.tensorboard import summary_writer
from torch_geometric_simpool.functional.losses import cluster_loss, entropy_loss
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.layer import SimPool
from torch_geometric_simpool.utils.batching import from_adj_t
from torch_geometric_simpool.utils.checks import check_bool, check_int, check_str


class Diagnostics:
    """Records metrics of the :class:`SimPool` layers of a model, averaged over graphs.

    ====================  ===================================================================
    all layers            `entropy_loss` and `cluster_loss`, the losses L_E and L_C;
                          `clusters`, the number of clusters with a node; `evenness`
    layers on sparse      also `edges_inside`, `edges_by_chance`, `connected` and, with
    batches               `distances`, `distance_ratio`: see :func:`locality`
    ====================  ===================================================================

    A metric is the mean over all graphs since the last call of :meth:`metrics`. It is recorded
    by forward hooks, so the training loop does not change. By default, layers are recorded in
    evaluation mode only: validation is measured, and training costs nothing.

    Recording never makes a forward pass fail. If the assignments of a graph are not finite (the
    model diverged), its metrics are NaN, and so is every mean they are part of, until the next
    :meth:`metrics`. A metric that is not defined for a graph (`distance_ratio` without edges) is
    left out of the mean. A layer that cannot be measured, for example a subclass whose
    `forward` takes other arguments, is left out with one warning.

    Copies of the model, and models saved and loaded, are not recorded and do not hold a
    reference to this object: keep the best model by :func:`copy.deepcopy` or :func:`torch.save`.

    Under :func:`torch.compile`, a recorded layer is a graph break, which `fullgraph=True` does
    not allow. Hooks are part of what is compiled, so create this object before the first
    compiled call.

    Args:
        model: A :class:`SimPool` layer, or a module that contains some.
        log_dir: The folder to write to for TensorBoard, or `None`.
        training: Whether to record layers in training mode too.
        distances: Whether to measure geodesic distances, in `O(n (n + E))` per graph.
        prefix: The prefix of the names in TensorBoard.

    Raises:
        TypeError: `model` is not a module.
        ValueError: `model` contains no :class:`SimPool` layer.
        ImportError: `log_dir` is given, and TensorBoard is not installed.

    Metrics are computed on the CPU, so recording synchronizes. :meth:`close`, or the end of a
    `with` statement, removes the hooks.

    Source: what the plots of Shulman (2020) show per epoch, and :func:`locality`.

    Example:
        >>> pool = SimPool(3, k=4).eval()
        >>> with Diagnostics(pool) as diagnostics:
        ...     _ = pool(torch.randn(10, 2), torch.randint(0, 10, (2, 30)))
        ...     sorted(diagnostics.metrics(epoch=1)[""])[:3]
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
        self.training = check_bool("training", training)
        self.distances = check_bool("distances", distances)
        self.prefix = check_str("prefix", prefix)
        self.writer = None if log_dir is None else summary_writer(log_dir)
        #: By layer, for each batch: the metrics of the graphs that have them, `[<= B]` each.
        self._recorded: dict[str, list[dict[str, Tensor]]] = {name: [] for name in layers}
        self._warned: set[str] = set()
        self._hooks = [_Hook(self, name, layer) for name, layer in layers.items()]

    def metrics(self, epoch: Optional[int] = None) -> dict[str, dict[str, float]]:
        """The metrics by layer and name since the last call.

        Each is the mean over the graphs for which it is defined: NaN if there is none, or if
        assignments were not finite. With `epoch` and `log_dir`, they are written to TensorBoard
        as `PREFIX/LAYER/NAME`. A layer that was not called has no metrics. Raises an error if
        `epoch` is not an integer `>= 0`.
        """
        if epoch is not None:
            check_int("epoch", epoch, 0)
        recorded, self._recorded = self._recorded, {layer: [] for layer in self._recorded}
        found: dict[str, dict[str, float]] = {}
        for layer, batches in recorded.items():
            # Sparse and dense batches, which one layer may take both, have different metrics.
            names = dict.fromkeys(name for batch in batches for name in batch)
            found[layer] = {
                name: torch.cat([batch[name] for batch in batches if name in batch]).mean().item()
                for name in names
            }
        if self.writer is not None and epoch is not None:
            for layer, values in found.items():
                for name, value in values.items():
                    tag = "/".join(part for part in (self.prefix, layer, name) if part)
                    self.writer.add_scalar(tag, value, epoch)
            self.writer.flush()
        return found

    def close(self) -> None:
        """Removes the hooks, and closes the TensorBoard file."""
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

    # SciPy cannot be traced, and need not be.
    @torch.compiler.disable
    def _record(self, hook: "_Hook", layer: SimPool, args: Any, kwargs: Any, out: Any) -> None:
        """Records the metrics of one call; any error becomes a warning."""
        # The tensors of torch.export have no values.
        if torch.compiler.is_compiling() or not hook.is_for(layer):
            return
        try:
            with torch.no_grad():
                given = _bind(layer, args, kwargs, out)
                self._recorded[hook.name].append(_measure(given, out, self.distances))
        except Exception as error:
            if hook.name not in self._warned:
                self._warned.add(hook.name)
                warnings.warn(
                    f"Diagnostics leaves out what it cannot measure of {type(layer).__name__} "
                    f"{hook.name!r}: {error}",
                    stacklevel=2,
                )


def _measure(given: dict[str, Any], out: SimPoolOutput, distances: bool) -> dict[str, Tensor]:
    """The metrics of every graph of one call for which they are defined."""
    s = out.s.detach().cpu()
    dense = given.get("edge_index") is None
    if dense:
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
        batch = torch.zeros(s.size(0), dtype=torch.long) if batch is None else batch.cpu().long()
    finite = s.isfinite().all(dim=-1)
    diverged = torch.zeros(batch_size, dtype=torch.bool)
    diverged[batch[~finite]] = True
    s = s.masked_fill(~finite.unsqueeze(-1), 0)
    metrics = locality(
        edge_index.cpu(), s.argmax(dim=-1), s.size(-1), batch, batch_size, distances
    )._asdict()
    if dense:
        # Pooled graphs are dense and weighted: locality of their edges means nothing.
        metrics = {name: metrics[name] for name in ("clusters", "evenness")}
    elif not distances:
        del metrics["distance_ratio"]
    empty = torch.bincount(batch, minlength=batch_size) == 0  # whose losses are none, not 0
    for name, loss in (("entropy_loss", entropy_loss), ("cluster_loss", cluster_loss)):
        losses = loss(s.double(), batch, batch_size=batch_size, reduction="none")
        metrics[name] = losses.masked_fill(empty, torch.nan)
    return {
        name: value.masked_fill(diverged, torch.nan)[diverged | ~value.isnan()]
        for name, value in metrics.items()
    }


class _Hook:
    """The forward hook of one layer; in a copy of the layer, it does nothing."""

    def __init__(self, diagnostics: Diagnostics, name: str, layer: SimPool) -> None:
        self.diagnostics: Optional[Diagnostics] = diagnostics
        self.name = name
        self.layer = weakref.ref(layer)
        self.handle: Optional[RemovableHandle] = None
        self.handle = layer.register_forward_hook(self, with_kwargs=True)
        self.number = self.handle.id

    def __call__(self, layer: SimPool, args: Any, kwargs: Any, out: Any) -> None:
        diagnostics = self.diagnostics
        if diagnostics is None or (layer.training and not diagnostics.training):
            return
        diagnostics._record(self, layer, args, kwargs, out)

    def is_for(self, layer: SimPool) -> bool:
        """Whether it is the recorded layer, and not a shallow copy, which has the same hooks."""
        # The shallow copies of DataParallel are the same layer on other devices.
        return layer is self.layer() or getattr(layer, "_is_replica", False)

    def remove(self) -> None:
        if self.handle is not None:  # a copy has none
            self.handle.remove()
        # Compiled code, and a forward pass in another thread, may still call the hook.
        self.diagnostics = None

    def __reduce__(self) -> Any:
        return _inert, (self.number,)


def _inert(number: int) -> _Hook:
    """A hook that does nothing, for copies. Saved models refer to this function by name."""
    hook = _Hook.__new__(_Hook)
    hook.diagnostics, hook.handle, hook.number = None, None, number
    # A saved module says by number which hooks take keyword arguments. The process that loads it
    # must not give that number to another hook, which would then be called with them.
    RemovableHandle.next_id = max(RemovableHandle.next_id, number + 1)
    return hook


def _bind(layer: SimPool, args: Any, kwargs: Any, out: Any) -> dict[str, Any]:
    """The arguments of a call by name; an error if they are not those of :class:`SimPool`."""
    bound = inspect.signature(layer.forward).bind(*args, **kwargs)
    given = bound.arguments
    names = ("edge_index", "batch") if given.get("edge_index") is not None else ("adj", "mask")
    if given.get(names[0]) is None or names[1] not in bound.signature.parameters:
        raise TypeError("its `forward` does not take the arguments of SimPool")
    if not isinstance(out, SimPoolOutput):
        raise TypeError(f"its `forward` returns a {type(out).__name__}, not a SimPoolOutput")
    return given
