"""The graph convolution of pooled graphs."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.nn import DenseGCNConv


class DenseGCN(DenseGCNConv):
    r"""The dense GCN layer that adds a self-loop to the diagonal of `A`.

    .. math::
        H' = \sigma(\tilde{D}^{-1/2} \tilde{A} \tilde{D}^{-1/2} H W + b), \qquad
        \tilde{A} = A + I

    PyG's :class:`~torch_geometric.nn.DenseGCNConv` sets the diagonal to one instead. The diagonal
    of a pooled graph holds the edges inside the clusters, which would be lost.

    Args:
        in_channels (int): Size of each node's features.
        out_channels (int): Size of each node's output.
        act (bool, optional): Whether to apply a ReLU. (default: :obj:`True`)

    Shapes:
        - **x:** `[B, N, in_channels]`
        - **adj:** `[B, N, N]`, non-negative
        - **mask:** `[B, N]`
        - **output:** `[B, N, out_channels]`

    Time is `O(B N^2 F)`. Source: equation of 'Graph convolutional network' in Shulman (2020),
    after Kipf and Welling (2017).
    """

    def __init__(self, in_channels: int, out_channels: int, act: bool = True) -> None:
        super().__init__(in_channels, out_channels)
        self.act = act

    def forward(self, x: Tensor, adj: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Convolves over `adj`."""
        loops = torch.eye(adj.size(-1), dtype=adj.dtype, device=adj.device)
        out = super().forward(x, adj + loops, mask, add_loop=False)
        return out.relu() if self.act else out
