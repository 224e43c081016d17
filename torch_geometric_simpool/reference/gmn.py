r"""The GNN that computes `Z` and `S` of the first level: a graph matching network."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

#: A dense layer: its weight `[out, in]` and its bias `[out]`, if it has one.
Dense = tuple[Tensor, Optional[Tensor]]


def encoder(
    x: Tensor, node: Dense, x_edge: Optional[Tensor] = None, edge: Optional[Dense] = None
) -> tuple[Tensor, Optional[Tensor]]:
    r"""Encodes the features of the nodes, and of the edges if there are any.

    .. math::
        h_i = \mathrm{MLP}_{node}(x_i), \qquad e_{ij} = \mathrm{MLP}_{edge}(x_{ij})

    Each MLP is one dense layer with a ReLU.

    Source: section 'Graph matching networks', equation of the encoder.
    """
    h = F.linear(x, *node).relu()
    if x_edge is None or edge is None:
        return h, None
    return h, F.linear(x_edge, *edge).relu()


def propagation(
    h: Tensor,
    edge_index: Tensor,
    message: Dense,
    node: Dense,
    e: Optional[Tensor] = None,
    act: bool = True,
) -> Tensor:
    r"""Sends a message along every edge and updates the nodes.

    .. math::
        m_{j \to i} &= f_{message}(h_i, h_j, e_{ij}) \\
        h_i' &= f_{node}\Bigl(h_i, \sum\nolimits_{j : (j, i) \in E} m_{j \to i}\Bigr)

    Both functions are one dense layer on the concatenated inputs. They end in a ReLU, except
    in the last propagation of a network (`act=False`).

    Source: section 'Graph matching networks', equation of the propagation.
    """
    j, i = edge_index
    inputs = [h[i], h[j]] if e is None else [h[i], h[j], e]
    m = F.linear(torch.cat(inputs, dim=1), *message)
    m = m.relu() if act else m
    total = m.new_zeros(h.size(0), m.size(1)).index_add(0, i, m)
    out = F.linear(torch.cat([h, total], dim=1), *node)
    return out.relu() if act else out


def gmn(
    x: Tensor,
    edge_index: Tensor,
    encoders: tuple[Dense, Optional[Dense]],
    first: tuple[Dense, Dense],
    last: tuple[Dense, Dense],
    x_edge: Optional[Tensor] = None,
) -> Tensor:
    r"""Computes an encoder, a propagation and a linear propagation.

    `encoders` holds the weights of the encoders of nodes and edges. `first` and `last` hold the
    weights of `f_message` and `f_node`.

    Source: table 'architecture', `Z^(0)` and `S^(0)`.
    """
    h, e = encoder(x, encoders[0], x_edge, encoders[1])
    h = propagation(h, edge_index, *first, e)
    return propagation(h, edge_index, *last, e, act=False)
