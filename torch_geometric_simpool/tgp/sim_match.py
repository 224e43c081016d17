"""Matching of similar nodes as a pooler of tgp."""

from typing import Any, Optional

from tgp.poolers import GraclusPooling
from tgp.select import Select, SelectOutput
from tgp.utils import Signature, foo_signature
from torch import Tensor

from torch_geometric_simpool.tgp.sim_pooling import TOPK_SETTINGS, read_edges
from torch_geometric_simpool.topk.matching import match_similar
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.utils.checks import check_choice, check_int


class SimMatchSelect(Select):
    """Merges pairs of similar nodes: the clusters of :func:`match_similar`.

    Args:
        num_similar (int): The `k` of :func:`match_similar`.
        s_inv_op (str): See :class:`tgp.select.SelectOutput`.
        **settings (optional): Settings of :func:`match_similar`.
    """

    def __init__(self, num_similar: int, s_inv_op: str, **settings: Any) -> None:
        super().__init__()
        self.num_similar = check_int("num_similar", num_similar, 1)
        TopKSettings.parse(settings, loop=False)  # checks them
        self.s_inv_op, self.settings = s_inv_op, settings

    def forward(
        self,
        edge_index: Any,
        edge_weight: Optional[Tensor] = None,
        num_nodes: Optional[int] = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Returns the assignment of the nodes of `edge_index` or a sparse matrix."""
        edges, weight = read_edges(edge_index, edge_weight)
        cluster = match_similar(edges, self.num_similar, weight, num_nodes, **self.settings)
        return SelectOutput(
            cluster_index=cluster,
            num_nodes=cluster.numel(),
            num_supernodes=int(cluster.max()) + 1 if cluster.numel() > 0 else 0,
            s_inv_op=self.s_inv_op,
        )

    def __repr__(self) -> str:
        """Shows the settings."""
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return (
            f"{type(self).__name__}(num_similar={self.num_similar}{settings}, "
            f"s_inv_op={self.s_inv_op!r})"
        )


class SimMatch(GraclusPooling):
    r"""Merges nodes that are connected to the same nodes, for tgp.

    The clusters are precomputed, and nothing is trained. Every cluster is a pair of similar nodes
    or a single node, as :func:`match_similar` computes them. Apart from the clusters,
    :class:`SimMatch` works like tgp's Graclus: features and edge weights of a cluster are summed,
    and :class:`tgp.data.transforms.PreCoarsening` computes the levels before training.

    Args:
        num_similar (int, optional): Number of candidates per node. Two nodes can be matched if
            either is among the `num_similar` most similar nodes of the other.
            (default: :obj:`16`)
        lift (str, optional): See :class:`tgp.poolers.GraclusPooling`, as for the following
            arguments. (default: :obj:`"precomputed"`)
        s_inv_op (str, optional): (default: :obj:`"transpose"`)
        connect_red_op (str, optional): (default: :obj:`"sum"`)
        lift_red_op (str, optional): (default: :obj:`"sum"`)
        cached (bool, optional): (default: :obj:`False`)
        remove_self_loops (bool, optional): (default: :obj:`True`)
        degree_norm (bool, optional): (default: :obj:`False`)
        edge_weight_norm (bool, optional): (default: :obj:`False`)
        **settings (optional): Settings of :func:`match_similar`.

    Raises:
        TypeError, ValueError: If a setting or a tensor is wrong, as in :func:`topk_similarity`.

    Differentiable with respect to `x` and `edge_weight`. The clusters are constant. Time and memory
    are dominated by :func:`match_similar`.

    Source: beyond Shulman (2020).

    Example:
        >>> import torch
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> out = SimMatch(num_similar=2)(x=torch.tensor([[1.], [2.], [3.], [4.]]), adj=star)
        >>> out.x.T, out.edge_index
        (tensor([[1., 5., 4.]]), tensor([[0, 0, 1, 2],
                [1, 2, 0, 0]]))
    """

    def __init__(
        self,
        num_similar: int = 16,
        lift: str = "precomputed",
        s_inv_op: str = "transpose",
        connect_red_op: str = "sum",
        lift_red_op: str = "sum",
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
        **settings: Any,
    ) -> None:
        check_choice("lift", lift, ("precomputed", "transpose", "inverse"))
        check_choice("s_inv_op", s_inv_op, ("transpose", "inverse"))
        super().__init__(
            lift,
            s_inv_op,
            connect_red_op,
            lift_red_op,
            cached,
            remove_self_loops,
            degree_norm,
            edge_weight_norm,
        )
        self.selector = SimMatchSelect(num_similar, s_inv_op, **settings)

    @classmethod
    def get_signature(cls) -> Signature:
        """Returns the arguments that `get_pooler` passes on; it ignores all others."""
        args = [*foo_signature(cls).args, *TOPK_SETTINGS]
        return Signature(args, has_varargs=False, has_kwargs=False)
