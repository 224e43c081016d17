"""Calls the functions of `reference` with the weights of a model."""

from typing import Any

from torch import Tensor

from torch_geometric_simpool import reference
from torch_geometric_simpool.models import GMN, DenseGCN, GMNConv, GMNEncoder
from torch_geometric_simpool.reference.gmn import Dense


def dense(lin: Any) -> Dense:
    """Returns the weight and the bias of a linear layer."""
    return lin.weight, lin.bias


def _encoders(encoder: GMNEncoder) -> tuple[Dense, Dense | None]:
    return dense(encoder.lin_node), None if encoder.lin_edge is None else dense(encoder.lin_edge)


def gmn_encoder(
    encoder: GMNEncoder, x: Tensor, edge_attr: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Computes an encoder without a GRU."""
    node, edge = _encoders(encoder)
    return reference.encoder(x, node, edge_attr, edge)


def gmn_conv(conv: GMNConv, h: Tensor, edge_index: Tensor, edge: Tensor | None = None) -> Tensor:
    """Computes one propagation."""
    layers = dense(conv.lin_message), dense(conv.lin_node)
    return reference.propagation(h, edge_index, *layers, edge, conv.act)


def gmn(model: GMN, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
    """Computes an encoder and two propagations."""
    first, last = ((dense(c.lin_message), dense(c.lin_node)) for c in (model.conv1, model.conv2))
    return reference.gmn(x, edge_index, _encoders(model.encoder), first, last, edge_attr)


def gcn(model: DenseGCN, x: Tensor, adj: Tensor) -> Tensor:
    """Computes a graph convolution."""
    return reference.gcn(x, adj, model.lin.weight, model.bias, model.act)
