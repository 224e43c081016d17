"""An assignment network that reads the set of similar nodes, without an order of the nodes."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import coalesce, scatter

from torch_geometric_simpool.topk.parse import check_edges
from torch_geometric_simpool.topk.similarity_graph import similar_pairs
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.transforms.inputs import EDGE_WEIGHT, read_graphs
from torch_geometric_simpool.utils.checks import check_floating, check_int


class SimilarityAssignment(torch.nn.Module):
    r"""Assigns each node by its features and by the set of its similar nodes.

    .. math::
        m_i &= \operatorname{mean}_{j \in \mathcal{S}(i)}
            \mathrm{ReLU}(W x_j + a A_{ji} + c \, C_{ij} + b) \\
        \text{logits}_i &= \mathrm{MLP}([x_i, m_i])

    :math:`\mathcal{S}(i)` holds the `k` most similar nodes of node :math:`i`, without the node
    itself, and **all nodes that tie with the last of them**. The logits are therefore permutation
    equivariant. The mean :math:`m_i` is zero if no node is similar.

    Args:
        in_channels (int): Size of the node features.
        hidden_channels (int): Size of the hidden layers.
        num_clusters (int): Number of clusters `K`.
        k (int, optional): Number of similar nodes per node. (default: :obj:`8`)
        **settings (optional): Settings of :func:`topk_similarity`, except `loop`.

    Similar nodes are computed in every call, unless :meth:`transform` has added them to the data.

    Raises:
        TypeError, ValueError: If a parameter or an input of :meth:`forward` is wrong.

    Time of a call: :func:`topk_similarity`, and linear in the edges and in the pairs of similar
    nodes.

    Source: beyond Shulman (2020), whose networks read an ordered list of `k` nodes.

    Example:
        >>> from torch_geometric_simpool import SimPool
        >>> net = SimilarityAssignment(16, 32, num_clusters=4, k=3)
        >>> pool = SimPool(assignment=net, features="node")
        >>> data = Data(x=torch.randn(6, 16), edge_index=torch.arange(12).view(2, 6) // 2)
        >>> out = pool(data.x, data.edge_index)
        >>> data = net.transform()(data)
        >>> weight = data.edge_attr[:, 0]
        >>> same = pool(data.x, data.edge_index, edge_weight=weight, edge_attr=data.edge_attr)
        >>> torch.allclose(out.s, same.s)
        True
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_clusters: int,
        k: int = 8,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._transform = SimilarNodes(k, **settings)
        self.lin_node = Linear(in_channels, hidden_channels)
        self.lin_edge = Linear(2, hidden_channels, bias=False)
        self.mlp = MLP([in_channels + hidden_channels, hidden_channels, num_clusters], norm=None)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for child in self.children():
            reset(child)

    def transform(self) -> "SimilarNodes":
        """Returns the transform that adds the similar nodes to a graph, once for all epochs."""
        return self._transform

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
    ) -> Tensor:
        """Returns the logits, `[N, num_clusters]`.

        Args:
            x (torch.Tensor): Node features, `[N, in_channels]`.
            edge_index (torch.Tensor): The edges, `[2, E]`, of :class:`SimilarNodes` if `edge_attr`
                is given.
            edge_weight (torch.Tensor, optional): The weights, `[E]`. They are not read if
                `edge_attr` is given. (default: :obj:`None`, ones)
            edge_attr (torch.Tensor, optional): :math:`(A_{ji}, C_{ij})` of every edge, `[E, 2]`, as
                :class:`SimilarNodes` writes them. (default: :obj:`None`, computed on the fly)
        """
        check_floating("x", x, ("N", self.lin_node.in_channels))
        if edge_attr is None:
            edges = check_edges(edge_index, edge_weight, x.size(0))
            edge_index, edge_attr = self._transform.similar_edges(edges)
        else:  # it holds weight and similarity of every edge
            check_floating("edge_attr", edge_attr, (edge_index.size(1), 2))
        similar = edge_attr[:, 1] != 0
        source, target = edge_index[:, similar]
        edge = self.lin_edge(edge_attr[similar].to(x.dtype))
        message = (self.lin_node(x).index_select(0, source) + edge).relu()
        mean = scatter(message, target, dim=0, dim_size=x.size(0), reduce="mean")
        return self.mlp(torch.cat([x, mean], dim=-1))

    def __repr__(self) -> str:
        """Shows the sizes and the settings."""
        sizes = f"{self.lin_node.in_channels}, {self.lin_node.out_channels}"
        return f"{type(self).__name__}({sizes}, {self.mlp.out_channels}, {self._transform})"


class SimilarNodes(BaseTransform):
    r"""Joins every node to its similar nodes, and writes :math:`(A_{ji}, C_{ij})` to the edges.

    The edges of the graph are coalesced. An edge :math:`(j, i)` is added for each similar node
    :math:`j` of node :math:`i`, ties at the `k`-th similar node included. `data.edge_attr` has two
    columns: the weight of the edge, 0 for an added edge, and the similarity, 0 if :math:`j` is not
    among the similar nodes of :math:`i`.

    Pass `data.edge_attr[:, 0]` as `edge_weight` of the pooling, which then pools the given graph.

    Args:
        k (int): Number of similar nodes per node.
        **settings (optional): Settings of :func:`topk_similarity`, except `loop`.

    Raises:
        TypeError, ValueError: If a parameter is wrong, `data` is not a graph, or it has an
            `edge_attr`.

    Time and memory: a call of :func:`topk_similarity`, and a sort of the edges.

    Example:
        >>> star = Data(edge_index=torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]]), num_nodes=3)
        >>> data = SimilarNodes(k=1)(star)
        >>> data.edge_index
        tensor([[0, 0, 1, 1, 2, 2],
                [1, 2, 0, 2, 0, 1]])
        >>> data.edge_attr[:, 1]
        tensor([0., 0., 0., 1., 0., 1.])
    """

    def __init__(self, k: int, **settings: Any) -> None:
        self.k = check_int("k", k, 1)
        self.settings = TopKSettings.parse(settings, loop=False)

    def forward(self, data: Data) -> Data:
        """Writes the edges to `data`, a copy that :meth:`__call__` has made."""
        graphs = read_graphs(data, EDGE_WEIGHT)
        if "edge_attr" in data:
            raise ValueError("`data.edge_attr` must be absent, since it is written, got a tensor")
        num_nodes = data.num_nodes
        edge_index, data.edge_attr = self.similar_edges(graphs.edges)
        data.edge_index, data.num_nodes, data.edge_weight = edge_index, num_nodes, None
        return data

    @torch.compiler.disable
    @torch.no_grad()
    def similar_edges(self, edges: EdgeList) -> tuple[Tensor, Tensor]:
        """Returns the edges and their :math:`(A_{ji}, C_{ij})` of a parsed graph."""
        pairs, similarity = similar_pairs(edges, self.k, self.settings, ties=True)
        weight = edges.edge_weight
        if weight is None:
            weight = similarity.new_ones(edges.edge_index.size(1))
        present = torch.stack([weight.to(similarity), torch.zeros_like(weight).to(similarity)], 1)
        added = torch.stack([torch.zeros_like(similarity), similarity], dim=1)
        edge_index = torch.cat([edges.edge_index, pairs.flip(0)], dim=1)
        return coalesce(edge_index, torch.cat([present, added]), edges.num_nodes)

    def __repr__(self) -> str:
        """Shows every parameter that is not the default."""
        settings = {name: v for name, v in self.settings.changed().items() if name != "loop"}
        listed = ", ".join(f"{name}={value!r}" for name, value in {"k": self.k, **settings}.items())
        return f"{type(self).__name__}({listed})"
