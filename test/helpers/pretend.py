"""A device that is not there: how tests show, on a CPU, what code would do on a GPU.

Tensors on it have values, which a CPU computes, but their device is another one. So code that takes
a CPU for granted fails here as it would on a GPU, and code that waits for the GPU is seen.

    with PretendDevice() as device:
        out = function(device.put(x))
    assert not device.syncs

What it shows: every operation that PyTorch dispatches, in the forward and in the backward pass,
with the devices of its arguments. It fails where two devices meet, as PyTorch does on a GPU. It
notes what makes the host wait (`syncs`), and what adds or writes in an order that varies on a GPU
(`unordered`), by PyTorch's own list in :func:`torch.use_deterministic_algorithms`.

What it does not show: PyTorch takes the device for one of type `meta`. Operations that are made of
others inside PyTorch, and are so in another way for CUDA alone, are seen in the way of `meta`.
Whether a kernel exists for CUDA, and what it costs, only a GPU tells.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: For a test that needs a GPU: it is skipped where there is none, and selected by `-m gpu`.
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE = torch.device("meta")

#: Operations after which the host has to know a value, a count or a size. Besides, copies between
#: the devices, and boolean masks as indices.
SYNCS = {
    "_local_scalar_dense",
    "_unique2",
    "allclose",
    "bincount",
    "equal",
    "histc",
    "is_nonzero",
    "isin",
    "item",
    "masked_select",
    "nonzero",
    "segment_reduce",  # it reads the lengths, unless `unsafe` is set
    "unique_consecutive",
    "unique_dim",
}

#: Operations that have one of their arguments, and of their results, on the CPU.
WITH_HOST = {"_pack_padded_sequence", "_pack_padded_sequence_backward"}

#: Operations that are not deterministic on CUDA, whatever their arguments.
UNORDERED = {"histc", "kthvalue", "median", "nll_loss2d_forward", "put"}


def needs_gpu(test: Any) -> Any:
    """Decorates a test that needs a GPU."""
    return pytest.mark.gpu(NO_GPU(test))


class PretendTensor(Tensor):
    """A tensor of the device; `held` has its values, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "PretendTensor":
        """Of the same shape and type."""
        out = Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
        )
        out.held = values
        return out

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """With its values."""
        return f"PretendTensor({self.held})"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """What does not get as far as an operation."""
        if func in (Tensor.numpy, Tensor.__array__, Tensor.data_ptr):
            raise TypeError(f"{func.__name__}() of a tensor that is not on the CPU")
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.tolist:
                return args[0].to("cpu").tolist()
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Only within the device, which handles everything itself."""
        raise RuntimeError(f"{func} outside of `with PretendDevice()`")


class PretendDevice(TorchDispatchMode):
    """Within it, tensors can be put on the device, and functions run there."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []
        self.unordered: list[str] = []
        self.operations: set[str] = set()
        self._constructors = _Constructors(self)

    def __enter__(self) -> "PretendDevice":
        """Also sees constructors, which PyTorch does not dispatch for data from Python."""
        self._constructors.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        """In the other order."""
        super().__exit__(*args)
        self._constructors.__exit__(*args)

    def put(self, value: Any) -> Any:
        """A tensor, a module, or a container of tensors, on the device; leaves stay leaves."""
        if isinstance(value, torch.nn.Module):
            for module in value.modules():
                for name, parameter in module.named_parameters(recurse=False):
                    moved = torch.nn.Parameter(PretendTensor(parameter.detach().clone()))
                    module._parameters[name] = moved
                for name, buffer in module.named_buffers(recurse=False):
                    module._buffers[name] = PretendTensor(buffer)
            return value

        def move(tensor: Tensor) -> Tensor:
            moved = PretendTensor(tensor.detach().clone())
            return moved.requires_grad_() if tensor.requires_grad else moved

        return tree_map_only(Tensor, move, value)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs an operation on the CPU, on behalf of the device."""
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        pretended = [tensor for tensor in given if isinstance(tensor, PretendTensor)]
        here = bool(pretended)
        target = kwargs.get("device")
        if target is not None:
            here = torch.device(target).type == DEVICE.type
            kwargs["device"] = torch.device("cpu")
        moves = name == "copy_" or (name == "_to_copy" and target is not None)
        # As on CUDA, an operation may have numbers from the CPU, tensors without dimensions.
        strangers = [t for t in given if not isinstance(t, PretendTensor) and t.dim() > 0]
        if any(tensor.device.type == DEVICE.type for tensor in strangers):
            raise RuntimeError(f"{func}: a tensor of numbers, such as a list that is an index")
        if pretended and strangers and not moves and name not in WITH_HOST:
            raise RuntimeError(f"{func}: tensors on two devices")
        crosses = (pretended and strangers) or (given and here != bool(pretended))
        if moves and crosses:
            self.syncs.append(f"{name} between the devices")

        raw_args, raw_kwargs = tree_map_only(PretendTensor, lambda t: t.held, (args, kwargs))
        if pretended:
            self.operations.add(name)
            if _waits(name, raw_args, raw_kwargs):
                self.syncs.append(name)
            if _varies(name, raw_args):
                self.unordered.append(name)
        out = func(*raw_args, **raw_kwargs)
        if not here:
            return out
        if name == "_pack_padded_sequence":
            return PretendTensor(out[0]), out[1]
        known = {id(tensor.held): tensor for tensor in pretended}  # of an operation in place
        return tree_map_only(Tensor, lambda t: known.get(id(t), PretendTensor(t)), out)


class _Constructors(TorchFunctionMode):
    """Tensors that are made of numbers in Python: they are copied to the device."""

    def __init__(self, device: PretendDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = torch.device(kwargs.pop("device"))
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


def _waits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the host has to wait for an operation on CUDA."""
    if name == "segment_reduce":
        return not kwargs.get("unsafe", False)
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        masked = any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        number = name != "index" and args[2].numel() == 1  # it is `masked_fill` then
        return masked and not number
    return name.rstrip("_") in SYNCS


def _varies(name: str, args: tuple[Any, ...]) -> bool:
    """Whether the result of an operation on CUDA depends on the order of its threads.

    It does where several numbers are added to one place, unless they are integers, whose sums do
    not depend on the order; or where one of several is written there.
    """
    name = name.rstrip("_")
    floating = isinstance(args[0], Tensor) and args[0].is_floating_point()
    if name in ("cumsum", "cumprod", "logcumsumexp"):
        return floating
    if name == "bincount":
        return len(args) > 1 and args[1] is not None
    if name in ("index_add", "index_reduce"):
        return floating and _repeats(args[2])
    if name in ("scatter_add", "scatter_reduce"):
        return floating and _repeats_along(args[2], args[1])
    if name == "scatter":
        return isinstance(args[3], Tensor) and _repeats_along(args[2], args[1])
    if name == "index_copy":
        return _repeats(args[2])
    if name in ("index_put", "_index_put_impl"):
        accumulate = len(args) > 3 and args[3]  # which is sorted on CUDA
        places = [i for i in args[1] if i is not None and i.dtype == torch.int64]
        if accumulate or not places or args[2].numel() == 1:
            return False
        return _repeats(torch.stack([i.flatten() for i in torch.broadcast_tensors(*places)], 1))
    return name in UNORDERED


def _repeats(index: Tensor) -> bool:
    return torch.unique(index, dim=0).size(0) < index.size(0) if index.dim() else False


def _repeats_along(index: Tensor, dim: int) -> bool:
    ids = index.sort(dim).values
    length = max(ids.size(dim) - 1, 0) if ids.dim() else 0
    return length > 0 and bool((ids.narrow(dim, 1, length) == ids.narrow(dim, 0, length)).any())


def values_of(value: Any) -> list[Tensor]:
    """The tensors in a result, on the CPU; each of them must be on the device."""
    leaves = tree_leaves(value)
    for leaf in leaves:
        assert not isinstance(leaf, Tensor) or isinstance(leaf, PretendTensor), "not on the device"
    return [leaf.held for leaf in leaves if isinstance(leaf, PretendTensor)]
