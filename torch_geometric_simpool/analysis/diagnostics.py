"""A callback that tells what the assignments of a model do while it is trained."""

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

from torch_geometric_simpool.analysis.locality import Locality, locality
from torch_geometric_simpool.analysis.tensorboard import summary_writer
from torch_geometric_simpool.functional.losses import cluster_loss, entropy_loss
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.layer import SimPool
from torch_geometric_simpool.utils.batching import from_adj_t


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

    Looking never makes a forward pass fail. Where the assignments of a graph are not finite
    (a model that diverged), its figures are NaN, and so is each mean they are part of, until
    the next :meth:`figures`; a figure that is not defined for a graph (`distance_ratio`
    without edges) is left out of the mean instead. A layer that cannot be measured, as a
    subclass whose `forward` takes other arguments, is warned of once and left out.

    Copies of the model, and what is saved of it, are not watched, nor do they hold on to
    this object: keep the best model by :func:`copy.deepcopy` or :func:`torch.save` as ever.

    Under :func:`torch.compile` the graph breaks where a layer is measured, so `fullgraph=True`
    cannot be had of what is watched. Hooks are part of what is compiled: watch the model before
    its first compiled call.

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
        #: Of every layer, a batch's figures of the graphs that have them, `[<= B]` each.
        self._seen: dict[str, list[dict[str, Tensor]]] = {name: [] for name in layers}
        self._warned: set[str] = set()
        self._hooks = [_Hook(self, name, layer) for name, layer in layers.items()]

    def figures(self, epoch: Optional[int] = None) -> dict[str, dict[str, float]]:
        """The figures by layer and name, since the last call.

        Each is the mean over the graphs that have it: NaN if none has, or if assignments were
        not finite, so that a model that diverged shows. With `epoch`, and a `log_dir`, they are
        written to TensorBoard as `PREFIX/LAYER/NAME`. A layer that has seen nothing has no
        figures.
        """
        seen, self._seen = self._seen, {layer: [] for layer in self._seen}
        found: dict[str, dict[str, float]] = {}
        for layer, batches in seen.items():
            # A layer may see sparse and dense batches, which have different figures.
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

    # SciPy and the graphs' sizes cannot be traced, and need not be.
    @torch.compiler.disable
    def _measure(self, hook: "_Hook", layer: SimPool, args: Any, kwargs: Any, out: Any) -> None:
        """Keeps the figures of one call; an observer must not make it fail, whatever it sees."""
        # The tensors of torch.export have no values.
        if torch.compiler.is_compiling() or not hook.concerns(layer):
            return
        try:
            with torch.no_grad():
                self._seen[hook.name].append(self._look(_given(layer, args, kwargs, out), out))
        except Exception as error:
            if hook.name not in self._warned:
                self._warned.add(hook.name)
                warnings.warn(
                    f"Diagnostics leaves out what it cannot measure of {type(layer).__name__} "
                    f"{hook.name!r}: {error}",
                    stacklevel=2,
                )

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
            batch = (
                torch.zeros(s.size(0), dtype=torch.long) if batch is None else batch.cpu().long()
            )
        finite = s.isfinite().all(dim=-1)
        diverged = torch.zeros(batch_size, dtype=torch.bool)
        diverged[batch[~finite]] = True
        s = s.masked_fill(~finite.unsqueeze(-1), 0)
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
        return {
            name: value.masked_fill(diverged, torch.nan)[diverged | ~value.isnan()]
            for name, value in figures.items()
        }


class _Hook:
    """What a layer calls; of a copy of the layer, or of a saved one, a call without effect."""

    # So that a network computes the same, bit for bit, whether somebody looks or not.
    reads_assignments_alone = True

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
        diagnostics._measure(self, layer, args, kwargs, out)

    def concerns(self, layer: SimPool) -> bool:
        """Whether it is the layer that is watched, and not a shallow copy, which shares hooks."""
        # DataParallel makes shallow copies too, but these are the same layer on another device.
        return layer is self.layer() or getattr(layer, "_is_replica", False)

    def remove(self) -> None:
        if self.handle is not None:  # not of a copy
            self.handle.remove()
        # What was compiled, and a pass that is under way in another thread, may still call it.
        self.diagnostics = None

    def __reduce__(self) -> Any:
        return _inert, (self.number,)


def _inert(number: int) -> _Hook:
    """A hook that does nothing, for copies; saved models name this function."""
    hook = _Hook.__new__(_Hook)
    hook.diagnostics, hook.handle, hook.number = None, None, number
    # PyTorch saves beside a hook, under its number, that it takes keyword arguments. A process
    # that loads it must not give the number, and with it the arguments, to somebody else's hook.
    RemovableHandle.next_id = max(RemovableHandle.next_id, number + 1)
    return hook


def _given(layer: SimPool, args: Any, kwargs: Any, out: Any) -> dict[str, Any]:
    """The arguments of a call by name, which must be those that a :class:`SimPool` takes."""
    bound = inspect.signature(layer.forward).bind(*args, **kwargs)
    given = bound.arguments
    names = ("edge_index", "batch") if given.get("edge_index") is not None else ("adj", "mask")
    if given.get(names[0]) is None or names[1] not in bound.signature.parameters:
        raise TypeError("its `forward` does not take the arguments of SimPool")
    if not isinstance(out, SimPoolOutput):
        raise TypeError(f"its `forward` returns a {type(out).__name__}, not a SimPoolOutput")
    return given
