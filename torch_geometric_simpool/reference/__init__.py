r"""The equations of SimPool for one dense graph, in plain PyTorch.

These functions define what the package computes. They are slow, check no arguments and take no
batches. Tests compare the code of `functional`, `topk` and `models` with them. Nothing else in the
package imports them.

Read the files in this order. Sections refer to Shulman (2020), arXiv:2006.02244.

================ ========================================== ================================
file             computes                                   section of the paper
================ ========================================== ================================
`similarity.py`  `C`: how alike two nodes are               Graph structural similarity matrix
`topk.py`        the `k` largest entries of each row of `C` Indices mapping trick (`idx`)
`mapping.py`     `C_tilde`: `k` features of each node       Indices mapping trick
`pooling.py`     `S`, `X'` and `A'`: the coarse graph       DiffPool revised
`losses.py`      `L_E` and `L_C`                            DiffPool revised
`gmn.py`         the GNN for `Z` and `S` of the first level Graph matching networks
`gcn.py`         the GNN on the coarse graphs               Graph convolutional network
================ ========================================== ================================

The names in the code follow the symbols of the paper:

============================ ==================================================================
`x`, `adj`                   `X`, the node features `[N, F]`; `A`, the adjacency matrix `[N, N]`
`a_hat`                      `A_hat = (A + lam I)^p`, `[N, N]`
`c`                          `C`, the structural similarities, `[N, N]`
`values`, `index`            the top k of each row of `C`, `[N, k]`; an empty place holds 0, -1
`c_tilde`                    `C_tilde`, the structural features, `[N, k]`
`logits`, `s`                the scores of the `K` clusters and `S`, their softmax, `[N, K]`
`x_pooled`, `adj_pooled`     `X'`, the features of the clusters `[K, F]`, and `A'`, `[K, K]`
`entropy_loss`               `L_E`: is each node assigned to one cluster?
`cluster_loss`               `L_C`: are the nodes spread evenly over the clusters?
============================ ==================================================================

One level of SimPool is all of them in a row. The two linear layers stand for the GNNs that
compute the embeddings `Z` and the assignment.

Example:
    >>> import torch
    >>> from torch_geometric_simpool import reference
    >>> adj = torch.tensor([[0., 1., 1.], [1., 0., 0.], [1., 0., 0.]])  # a path: 1 - 0 - 2
    >>> reference.structural_similarity(adj)
    tensor([[1., 0., 0.],
            [0., 1., 1.],
            [0., 1., 1.]])
    >>> values, index = reference.topk_similarity(adj, k=2)
    >>> index
    tensor([[ 0, -1],
            [ 1,  2],
            [ 1,  2]])
    >>> c_tilde = reference.map_indices(values, index, num_nodes=3, alpha=0.5)
    >>> c_tilde
    tensor([[0.3750, 0.0000],
            [0.6250, 0.8750],
            [0.6250, 0.8750]])
    >>> logits = torch.nn.Linear(2, 2)(c_tilde)
    >>> z = torch.nn.Linear(5, 4)(torch.randn(3, 5))
    >>> s, x_pooled, adj_pooled = reference.sim_pool(z, adj, logits)
    >>> s.shape, x_pooled.shape, adj_pooled.shape
    (torch.Size([3, 2]), torch.Size([2, 4]), torch.Size([2, 2]))
    >>> loss = reference.entropy_loss(s) + reference.cluster_loss(s)
"""

from torch_geometric_simpool.reference.gcn import gcn
from torch_geometric_simpool.reference.gmn import encoder, gmn, propagation
from torch_geometric_simpool.reference.losses import cluster_loss, entropy_loss
from torch_geometric_simpool.reference.mapping import map_indices, naive_map_indices
from torch_geometric_simpool.reference.pooling import cluster_mask, lift, sim_pool
from torch_geometric_simpool.reference.similarity import structural_similarity
from torch_geometric_simpool.reference.topk import topk, topk_similarity

__all__ = [
    "cluster_loss",
    "cluster_mask",
    "encoder",
    "entropy_loss",
    "gcn",
    "gmn",
    "lift",
    "map_indices",
    "naive_map_indices",
    "propagation",
    "sim_pool",
    "structural_similarity",
    "topk",
    "topk_similarity",
]
