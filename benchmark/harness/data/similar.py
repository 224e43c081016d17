"""Writes similar nodes as edges and as clusters of two, or a control in their place.

A control shows how much of an accuracy is due to similarity. It makes one change:

=========== ================================================================================
`similar`   change
=========== ================================================================================
`cosine`    none: the nodes with the highest structural similarity C, and their similarities
`constant`  1 in place of every similarity
`shuffled`  the similarities of a node are permuted among its similar nodes
`counts`    the number of common neighbors in place of the similarity
`neighbors` a node's neighbors in place of its similar nodes, with 1 as similarity
=========== ================================================================================
"""

from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import (
    coalesce,
    remove_self_loops,
    scatter,
    to_scipy_sparse_matrix,
)

from harness.data.inputs import edges_only
from harness.run import SIMILAR, Run
from torch_geometric_simpool import AddSimilarityEdges, match_similar
from torch_geometric_simpool.models import SimilarityAssignment


def set_similar_nodes(run: Run, graphs: list[Data]) -> None:
    """Writes `similar_index` and `similar_attr`, or the matchings, if the method reads them."""
    if run.method not in SIMILAR:
        return
    whole = Batch.from_data_list([edges_only(graph) for graph in graphs])
    first = whole.ptr.tolist()
    compute = matchings if run.method == "simmatch" else similar_edges
    for name, values in compute(run, whole).items():
        # Values of edges go to the graph of the target, and values of nodes to the node's graph.
        node = values["index"].view(-1, values["index"].size(-1))[-1]
        order = whole.batch[node].argsort(stable=True)
        counts = torch.bincount(whole.batch[node], minlength=len(graphs)).tolist()
        for key, value in values.items():
            for graph, part, offset in zip(graphs, value[..., order].split(counts, dim=-1), first):
                graph[f"{name}_{key}"] = part - offset if key == "index" else part.t()


def similar_edges(run: Run, graph: Data) -> dict[str, dict[str, Tensor]]:
    """Returns pairs of nodes (`index`) and their weights and similarities (`attr`), `[2, M]`."""
    settings: dict[str, Any] = {"k": run.k, "p": run.p, "lam": run.lam}
    transform = (
        AddSimilarityEdges(**settings, ties=True, edge_attr=True)
        if run.method == "similarity-edges"
        else SimilarityAssignment(1, 1, 1, **settings).transform()
    )
    data = transform(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes))
    edge_index, (weight, similarity) = data.edge_index, data.edge_attr.unbind(1)
    similar = similarity != 0
    if run.similar == "neighbors":
        similarity = (weight > 0).float()
        if run.method == "similarity-edges":
            edge_index, weight, similarity = graph.edge_index, *torch.ones(2, graph.num_edges)
    elif run.similar == "constant":
        # All members of a set are similar nodes. Edges include pairs without a common neighbor.
        similarity = (similar | (run.method == "similarity-edges")).float()
    elif run.similar == "shuffled":
        node, random = edge_index[1, similar].numpy(), np.random.default_rng(run.seed)
        drawn = np.lexsort((random.random(len(node)), node))
        values, similarity = similarity[similar], similarity.clone()
        similarity[similar.nonzero().view(-1)[node.argsort(kind="stable")]] = values[drawn]
    elif run.similar == "counts":
        neighbors = to_scipy_sparse_matrix(graph.edge_index, num_nodes=graph.num_nodes).tocsr()
        source, target = edge_index.numpy().copy()  # SciPy needs arrays that it can write to
        counts = (neighbors @ neighbors.T)[target, source]
        similarity = torch.from_numpy(np.asarray(counts)).view(-1).float() * similar
    return {"similar": {"index": edge_index, "attr": torch.stack([weight, similarity])}}


def matchings(run: Run, graph: Data) -> dict[str, dict[str, Tensor]]:
    """Returns two levels of clusters of at most two nodes. The first node represents a cluster.

    `match0` holds the representative of each node, and `coarse0` the edges between representatives,
    without self-loops. The weight of an edge is the share of joined pairs of nodes of its clusters.
    Level 1 is computed from the summed weights.
    """
    edge_index, num_nodes = graph.edge_index, graph.num_nodes
    weight, node, levels = torch.ones(1, edge_index.size(1)), torch.arange(num_nodes), {}
    size = torch.ones(num_nodes)
    for level in (0, 1):
        if run.similar == "neighbors":
            match = node.clone()
            for i, j in nx.maximal_matching(nx.Graph(edge_index.t().tolist())):
                match[[i, j]] = min(i, j)
        else:
            cluster = match_similar(edge_index, run.k, weight[0], num_nodes, p=run.p, lam=run.lam)
            match = scatter(node, cluster, reduce="min")[cluster]
        edge_index, weight = remove_self_loops(match[edge_index], weight.t())
        edge_index, weight = coalesce(edge_index, weight, num_nodes)
        weight, size = weight.t(), scatter(size, match, dim_size=num_nodes)
        levels[f"match{level}"] = {"index": match}
        density = weight / size[edge_index].prod(dim=0)
        levels[f"coarse{level}"] = {"index": edge_index, "weight": density}
    return levels
