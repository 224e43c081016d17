"""A recurrent encoder for rows of varying width."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_device,
    check_floating,
    check_int,
    check_like_layer,
    is_integral,
    shape,
)


class GRUEncoder(torch.nn.Module):
    """Reads the row of `C` of each node, all of it, as a sequence; returns its last state.

    Args:
        out_channels: Width of the state, on which a ReLU acts at the end.
        node_channels: Number of node features after the row (the variant `'both'`);
            they are appended to the state as they are.

    Shapes:
        - x: `[*, L + node_channels]`, where a row of a graph of `n` nodes holds `n`
          similarities, then `L - n` zeros; num_nodes: `n` of each row, `[*]`
        - returns `[*, out_channels + node_channels]`

    Time `O(N L)` recurrent steps of width `out_channels`, for the longest graph `L`
    of a batch: meant for small graphs. It does not depend on padding.

    Source: section 'Assignment matrix' of Shulman (2020).
    """

    def __init__(self, out_channels: int, node_channels: int = 0) -> None:
        super().__init__()
        self.out_channels = check_int("out_channels", out_channels, 1)
        self.node_channels = check_int("node_channels", node_channels, 0)
        self.gru = torch.nn.GRU(1, out_channels, batch_first=True)

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        self.gru.reset_parameters()

    def forward(self, x: Tensor, num_nodes: Tensor) -> Tensor:
        """Encodes the rows."""
        check_floating("x", x)
        check_dense("num_nodes", num_nodes)
        if not is_integral(num_nodes.dtype):
            raise TypeError(f"`num_nodes` must hold integers, got {num_nodes.dtype}")
        if x.dim() == 0 or num_nodes.shape != x.shape[:-1]:
            raise ValueError(
                f"`num_nodes` must have one entry for each row of `x`, {list(x.shape[:-1])}, got "
                f"{shape(num_nodes)}"
            )
        check_device("num_nodes", num_nodes, x.device, "x")
        check_like_layer("x", x, next(self.gru.parameters()))
        if num_nodes.numel() > 0 and int(num_nodes.min()) < 0:
            raise ValueError(f"`num_nodes` must hold sizes >= 0, got {int(num_nodes.min())}")
        length = x.size(-1) - self.node_channels
        if length < 0 or (num_nodes.numel() > 0 and int(num_nodes.max()) > length):
            raise ValueError(
                "`x` must hold a row of C, as wide as the largest graph, and "
                f"{self.node_channels} node features, got {list(x.shape)}"
            )
        row, node = x.split([length, self.node_channels], dim=-1)
        if row.numel() == 0:
            state = row.new_zeros(*row.shape[:-1], self.out_channels)
        else:
            packed = pack_padded_sequence(
                row.reshape(-1, length, 1),
                num_nodes.reshape(-1).clamp(min=1).cpu(),
                batch_first=True,
                enforce_sorted=False,
            )
            state = self.gru(packed)[1][0].relu().view(*row.shape[:-1], self.out_channels)
        return torch.cat([state, node], dim=-1)
