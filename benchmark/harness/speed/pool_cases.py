"""The batches of graphs on which pooling operators are compared."""

from typing import Any

import torch
from torch import Tensor

from harness.data.load import load
from harness.speed.pool_methods import METHODS

#: The number of nodes, and `edge_index`.
Graph = tuple[int, Tensor]
#: By name: `runs`, each a number of clusters and its batches, and optionally `methods` and `kept`.
#: A case with several runs is a series.
Cases = dict[str, dict[str, Any]]
SCALING = (100, 300, 1000, 3000, 10_000, 50_000)
CLUSTERS = (4, 8, 16, 32, 64, 128)
SPARSE = ["sim_pool", "DiffPool, unbatched (tgp)"]
ON_DATASETS = [name for name in METHODS if name != "dense_sim_pool"]


def dd_cases(root: str) -> Cases:
    """All of D&D."""
    graphs = load_graphs("DD", root)
    cases = {
        f"D&D, batches of {size}": {
            "runs": {"all": (32, make_batches(graphs, size))},
            "methods": ON_DATASETS,
        }
        for size in (20, 64)
    }
    kept = {**cases["D&D, batches of 20"], "kept": True}
    return {**cases, "D&D, batches of 20, memory kept": kept}


def scaling_cases(root: str) -> Cases:
    """Small graphs, graphs of one size, and series over what the time grows with."""
    torch.manual_seed(0)
    dd, enzymes = (load_graphs(name, root) for name in ("DD", "ENZYMES"))
    return {
        "ENZYMES, batches of 20": {
            "runs": {"all": (32, make_batches(enzymes, 20))},
            "methods": ON_DATASETS,
        },
        "1,000 graphs of ENZYMES": {
            "runs": {"all": (32, [(enzymes + enzymes)[:1000]])},
            "methods": SPARSE,
        },
        "graphs of one size": {
            "runs": {
                str(n): (32, [[random_graph(n, 4 * n) for _ in range(20)]]) for n in (32, 128, 512)
            },
        },
        "one large graph among 19": {
            "runs": {
                str(n): (32, [[random_graph(n, 3 * n)] + [random_graph(30, 60) for _ in range(19)]])
                for n in SCALING
            },
        },
        "by K, D&D": {
            "runs": {str(k): (k, make_batches(dd, 20)[:8]) for k in CLUSTERS},
            "methods": SPARSE,
        },
    }


def load_graphs(name: str, root: str) -> list[Graph]:
    """The graphs of a data set, without features."""
    data = load(name, root, True, "labels", 0)
    return [(int(graph.num_nodes), graph.edge_index) for graph in data.graphs]


def make_batches(graphs: list[Graph], size: int) -> list[list[Graph]]:
    """All graphs, shuffled. The batch with the largest graph is first: it needs most memory."""
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0)).tolist()
    batches = [[graphs[i] for i in order[a : a + size]] for a in range(0, len(graphs), size)]
    return sorted(batches, key=lambda batch: -max(nodes for nodes, _ in batch))


def random_graph(num_nodes: int, num_edges: int) -> Graph:
    """A graph with edges to near nodes, in both directions, sorted as by PyG."""
    source = torch.randint(num_nodes, (num_edges // 2,))
    target = (source + torch.randint(1, 11, source.shape)) % num_nodes
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return num_nodes, edge_index[:, edge_index[0].argsort(stable=True)]
