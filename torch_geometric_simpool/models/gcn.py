"""The graph convolution between two pooling layers."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv

from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_channels,
    check_device,
    check_floating,
    check_int,
    check_mask,
    check_tensor,
    shape,
)


class DenseGCN(DenseGCNConv):
    r"""A dense GCN layer with a self-connection *added* to the one that is there.

    .. math::
        H' = \sigma(\tilde{D}^{-1/2} \tilde{A} \tilde{D}^{-1/2} H W + b), \qquad
        \tilde{A} = A + I

    PyG's :class:`~torch_geometric.nn.DenseGCNConv` sets the diagonal of `A` to one.
    That of a pooled graph holds the edges inside the clusters, so here one is added.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        act: Whether to apply a ReLU.

    Shapes:
        - x: `[B, N, in_channels]`; adj: `[B, N, N]`, or `[N, N]` for all graphs, non-negative;
          mask: `[B, N]`
        - returns `[B, N, out_channels]`

    Time `O(B N^2 F)`. Source: equation of 'Graph convolutional network' in Shulman
    (2020), after Kipf and Welling (2017).
    """

    def __init__(self, in_channels: int, out_channels: int, act: bool = True) -> None:
        check_int("in_channels", in_channels, 1)
        check_int("out_channels", out_channels, 1)
        super().__init__(in_channels, out_channels)
        self.act = check_bool("act", act)

    def forward(self, x: Tensor, adj: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Convolves over `adj`."""
        check_channels("x", x, self.in_channels, self.lin.weight)
        if x.dim() not in (2, 3):
            raise ValueError(
                f"`x` must have shape [B, N, {self.in_channels}] or [N, {self.in_channels}], got "
                f"{shape(x)}"
            )
        num_graphs, num_nodes = (1, *x.shape)[-3:-1]
        check_floating("adj", adj)
        expected = [(num_graphs, num_nodes, num_nodes), (1, num_nodes, num_nodes)]
        if tuple(adj.shape) not in (*expected, expected[0][1:]):
            raise ValueError(
                f"`adj` must have shape {list(expected[0])}, one matrix for each graph of `x`, or "
                f"{list(expected[0][1:])}, one for all, got {shape(adj)}"
            )
        check_device("adj", adj, x.device, "x")
        if adj.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"`adj` must have the type of `x`, {x.dtype}, got {adj.dtype}")
        if mask is not None:
            single = num_graphs == 1 and check_tensor("mask", mask).dim() == 1
            check_mask(mask, (num_nodes,) if single else (num_graphs, num_nodes), x.device, "x")
        loops = torch.eye(adj.size(-1), dtype=adj.dtype, device=adj.device)
        out = super().forward(x, adj + loops, None, add_loop=False)
        if mask is not None:  # PyG takes none with one matrix for all
            out = out * mask.view(num_graphs, num_nodes, 1).to(out.dtype)
        return out.relu() if self.act else out
