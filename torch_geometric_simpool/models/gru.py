"""A recurrent encoder for rows of varying length."""

from typing import Optional

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from torch_geometric_simpool.utils.checks import check_integral, shape


class GRUEncoder(torch.nn.Module):
    """Reads each node's whole row of `C` as a sequence, and returns the last state.

    Args:
        out_channels (int): Size of the state, to which a ReLU is applied.
        node_channels (int, optional): Number of node features after the row, which are appended to
            the state (the variant `'both'`). (default: :obj:`0`)

    Shapes:
        - **x:** `[*, L + node_channels]`. In a graph of `n` nodes, a row holds `n` similarities,
          then `L - n` ignored values
        - **num_nodes:** the size `n` of each row's graph, `[*]`
        - **output:** `[*, out_channels + node_channels]`

    Takes `O(N L)` recurrent steps, where `L` is the size of the largest graph. This suits small
    graphs only.

    Source: section 'Assignment matrix' of Shulman (2020).
    """

    def __init__(self, out_channels: int, node_channels: int = 0) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.node_channels = node_channels
        self.gru = torch.nn.GRU(1, out_channels, batch_first=True)

    def forward(self, x: Tensor, num_nodes: Optional[Tensor]) -> Tensor:
        """Encodes the rows."""
        num_nodes = check_integral("num_nodes", num_nodes, tuple(x.shape[:-1]))
        length = x.size(-1) - self.node_channels
        if length < 0 or (num_nodes.numel() > 0 and int(num_nodes.max()) > length):
            raise ValueError(
                "`x` must hold whole rows of C, as wide as the largest graph of `num_nodes`, and "
                f"{self.node_channels} node features, got {shape(x)}"
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
