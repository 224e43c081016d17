"""The messages of `reference` under the names that the tests of `engine` use."""

from torch import Tensor

from helpers.weights import gmn, gmn_conv
from torch_geometric_simpool import reference

__all__ = ["gmn", "gmn_conv", "propagation"]


def propagation(
    x: Tensor,
    message: Tensor,
    message_bias: Tensor | None,
    node: Tensor,
    node_bias: Tensor | None,
    edge_index: Tensor,
) -> Tensor:
    """A layer of those weights, with a message for every edge."""
    return reference.propagation(x, edge_index, (message, message_bias), (node, node_bias))
