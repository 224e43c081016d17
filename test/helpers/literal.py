"""The networks of the paper as its equations read: one edge after another, nothing saved."""

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.models import GMN, DenseGCN, GMNConv


def gmn_conv(conv: GMNConv, h: Tensor, edge_index: Tensor, edge: Tensor | None = None) -> Tensor:
    """`f_message` and `f_node` on concatenations, from the layer's own weights."""
    total = h.new_zeros(h.size(0), conv.message_channels)
    for number, (j, i) in enumerate(edge_index.t().tolist()):
        parts = [h[i], h[j]] if edge is None else [h[i], h[j], edge[number]]
        message = conv.lin_message(torch.cat(parts))
        message = message.relu() if conv.act else message
        total = torch.cat([total[:i], total[i : i + 1] + message, total[i + 1 :]])
    out = conv.lin_node(torch.cat([h, total], dim=1))
    return out.relu() if conv.act else out


def propagation(
    x: Tensor,
    message: Tensor,
    message_bias: Tensor | None,
    node: Tensor,
    node_bias: Tensor | None,
    edge_index: Tensor,
) -> Tensor:
    """A layer of those weights, with a message for every edge."""
    j, i = edge_index
    sent = F.linear(torch.cat([x[i], x[j]], dim=1), message, message_bias).relu()
    total = x.new_zeros(x.size(0), sent.size(1)).index_add(0, i, sent)
    return F.linear(torch.cat([x, total], dim=1), node, node_bias).relu()


def gmn(model: GMN, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
    """An encoder, a propagation, and a linear propagation."""
    assert model.encoder.lin_node is not None
    h = model.encoder.lin_node(x).relu()
    edge = None
    if model.encoder.lin_edge is not None:
        edge = model.encoder.lin_edge(edge_attr).relu()
    h = gmn_conv(model.conv1, h, edge_index, edge)
    assert model.conv1.act
    assert not model.conv2.act
    return gmn_conv(model.conv2, h, edge_index, edge)


def gcn(model: DenseGCN, x: Tensor, adj: Tensor) -> Tensor:
    """`relu(D^-1/2 (A + I) D^-1/2 X W + b)` of one graph."""
    looped = adj + torch.eye(adj.size(0), dtype=adj.dtype)
    degree = torch.diag(looped.sum(dim=1).rsqrt())
    out = degree @ looped @ degree @ x @ model.lin.weight.t() + model.bias
    return out.relu() if model.act else out
