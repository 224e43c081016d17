"""The graph convolution between two pooling layers."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv


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
        - x: `[B, N, in_channels]`; adj: `[B, N, N]`, non-negative; mask: `[B, N]`
        - returns `[B, N, out_channels]`

    Time `O(B N^2 F)`. Source: equation of 'Graph convolutional network' in Shulman
    (2020), after Kipf and Welling (2017).
    """

    def __init__(self, in_channels: int, out_channels: int, act: bool = True) -> None:
        super().__init__(in_channels, out_channels)
        self.act = act

    def forward(self, x: Tensor, adj: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Convolves over `adj`."""
        loops = torch.eye(adj.size(-1), dtype=adj.dtype, device=adj.device)
        out = super().forward(x, adj + loops, mask, add_loop=False)
        return out.relu() if self.act else out
