"""Counts the pairs of graphs of BREC that color refinement and a network tell apart.

Both read labels of pairs of nodes: the entry of A alone, or with the similarity C. BREC has 400
pairs of non-isomorphic graphs (Wang and Zhang, 2023, 'Towards Better Evaluation of GNN
Expressiveness with BREC Dataset'). The files `basic.npy`, ... are in the folder
`customize/Data/raw` of https://github.com/GraphPKU/BREC (MIT). Put them into the folder `brec` of
`--root`. They hold strings and no pickled objects.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch.nn import CosineEmbeddingLoss, LayerNorm, Module, ModuleList
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP, global_add_pool

from harness.command import BenchmarkError, first_line
from torch_geometric_simpool import structural_similarity
from torch_geometric_simpool.models import GMNConv

CATEGORIES = ("basic", "regular", "str", "extension", "cfi", "4vtx", "dr")
#: Rows of the table, and the settings of C if the labels of pairs of nodes include C.
ROWS: dict[str, dict[str, Any]] = {
    "A": {},
    "A, C with p = 1": {"p": 1},
    "A, C constant": {"p": 1},
    "A, C with p = 2, lam = 1": {"p": 2, "lam": 1},
    "A, C with p = 3, lam = 1": {"p": 3, "lam": 1},
    "A, counts of common neighbors": {},
    "A, return probabilities": {},
}
#: The rows and categories for which networks are trained. A network tells no more pairs apart than
#: color refinement on the same labels, which with p = 1 tells none of the other categories apart.
NETWORKS = ("A", "A, C with p = 1", "A, C constant", "A, counts of common neighbors")
TRAINED = ("basic", "regular", "extension")
#: BREC's protocol. A training stops when the loss is below `LOSS`. `THRESHOLD` is for T^2.
COPIES, PAIRS_IN_BATCH, EPOCHS, LOSS, THRESHOLD = 32, 8, 20, 0.2, 72.34
#: The network: its number of propagations, their width, and the protocol's size of the embedding.
LAYERS, WIDTH, OUTPUTS = 4, 32, 16
#: The longest random walks whose return probabilities are labels.
STEPS = 8


def count_pairs(root: Path) -> dict[str, dict[str, int]]:
    """Returns the number of pairs, and of pairs that each row tells apart, by category."""
    counts: dict[str, dict[str, int]] = {row: {} for row in ("pairs", *ROWS)}
    for category in CATEGORIES:
        pairs = list(read_pairs(root / "brec" / f"{category}.npy"))
        counts["pairs"][category] = len(pairs)
        for row in ROWS:
            labeled = [(labels(row, one), labels(row, other)) for one, other in pairs]
            counts[row][category] = sum(differ(*pair) for pair in labeled)
            if row in NETWORKS and category in TRAINED:
                trained = counts.setdefault(f"network: {row}", {})
                trained[category] = sum(separated(*pair) for pair in labeled)
    return counts


def read_pairs(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Reads pairs of adjacency matrices. In a flat list, the graphs of a pair are neighbors."""
    try:
        codes = np.load(path).reshape(-1, 2)
    except (OSError, ValueError) as error:
        raise BenchmarkError(
            f"{path} cannot be read ({first_line(error)}). Copy it from customize/Data/raw of "
            "https://github.com/GraphPKU/BREC"
        ) from error
    for pair in codes:
        one, other = (code if isinstance(code, bytes) else code.encode() for code in pair)
        yield _adjacency(one), _adjacency(other)


def _adjacency(code: bytes) -> np.ndarray:
    read = nx.from_sparse6_bytes if code.startswith(b":") else nx.from_graph6_bytes
    return nx.to_numpy_array(read(code.strip()))


def labels(row: str, adj: np.ndarray) -> np.ndarray:
    """Returns the labels of all pairs of nodes, `[N, N, D]`; the first is the entry of A."""
    others = [np.zeros_like(adj)]
    if ROWS[row]:
        # Rounding errors must not tell equal similarities of two graphs apart.
        others = [structural_similarity(torch.from_numpy(adj), **ROWS[row]).numpy().round(9)]
    elif "counts" in row:
        others = [adj @ adj]
    elif "return" in row:
        walk = adj / adj.sum(axis=1, keepdims=True).clip(min=1)
        powers = (np.linalg.matrix_power(walk, step) for step in range(2, STEPS + 1))
        others = [np.diag(power.diagonal()).round(9) for power in powers]
    if "constant" in row:
        others = [others[0] > 0]
    return np.stack([adj, *others], axis=-1)


def differ(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether color refinement tells two graphs with labels `[N, N, D]` apart.

    Each round refines the color of a node by the multiset of the labels and colors of all nodes.
    Refinement ends when the number of colors does not grow.
    """
    if one.shape != other.shape:
        return True
    size, num_labels = one.shape[1:]
    both = np.stack([one, other]).reshape(-1, num_labels)
    pair = np.unique(both, axis=0, return_inverse=True)[1].reshape(2, size, size)
    color, count = np.zeros((2, size), dtype=np.int64), 0
    while color.max() + 1 > count:
        count = color.max() + 1
        seen = np.sort(pair * count + color[:, None, :], axis=2)
        own = np.concatenate([color[:, :, None], seen], axis=2).reshape(2 * size, -1)
        color = np.unique(own, axis=0, return_inverse=True)[1].reshape(2, size)
        if not np.array_equal(np.sort(color[0]), np.sort(color[1])):
            return True
    return False


def separated(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether a network that is trained on two labeled graphs tells them apart.

    In BREC's protocol, a cosine embedding loss pushes the embeddings of 32 relabelings of both
    graphs apart. The graphs are told apart if T^2 is above the threshold for differences between
    both graphs, and below it for differences between relabelings of one graph.
    """
    seed_everything(0)
    batches, same = relabeled(one, other), relabeled(one, one)
    model = PairNet(one.shape[-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-4)
    loss_of, target = CosineEmbeddingLoss(), torch.full((PAIRS_IN_BATCH,), -1.0)
    for _ in range(EPOCHS):
        total = 0.0
        for batch in batches:
            loss = loss_of(*model(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
        if total / len(batches) < LOSS:
            break
    return t_square(model, batches) > THRESHOLD > t_square(model, same)


def relabeled(one: np.ndarray, other: np.ndarray) -> list[Batch]:
    """Returns batches of relabelings: the first half is of one graph, the second of the other."""

    def relabel(graph: np.ndarray) -> Data:
        order = np.random.permutation(len(graph))
        label = torch.from_numpy(graph[order][:, order]).float()
        edge_index = label.any(dim=2).nonzero().t()
        return Data(edge_index=edge_index, edge_attr=label[tuple(edge_index)], num_nodes=len(graph))

    sides = [graph for graph in (one, other) for _ in range(PAIRS_IN_BATCH)]
    batches = range(COPIES // PAIRS_IN_BATCH)
    return [Batch.from_data_list([relabel(graph) for graph in sides]) for _ in batches]


class PairNet(Module):
    """Embeds graphs by propagations over edges with attributes, a sum over nodes, and an MLP."""

    def __init__(self, edge_dim: int) -> None:
        super().__init__()
        self.convs = ModuleList(GMNConv(WIDTH, WIDTH, edge_dim=edge_dim) for _ in range(LAYERS))
        # The running averages of batch norm are misleading on regular graphs.
        self.norms = ModuleList(LayerNorm(WIDTH) for _ in range(LAYERS))
        self.mlp = MLP([WIDTH, WIDTH, OUTPUTS], norm=None)

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """Returns the embeddings of the first half of the graphs, and of the second half."""
        h = torch.ones(batch.num_nodes, WIDTH)
        for conv, norm in zip(self.convs, self.norms):
            h = norm(conv(h, batch.edge_index, batch.edge_attr))
        return self.mlp(global_add_pool(h, batch.batch, batch.num_graphs)).chunk(2)


@torch.no_grad()
def t_square(model: PairNet, batches: list[Batch]) -> float:
    """Returns T^2 of the differences of the embeddings of two graphs, as BREC computes it."""
    apart = torch.cat([first - second for first, second in map(model, batches)])
    mean = apart.mean(dim=0)
    return float(mean @ torch.linalg.pinv(torch.cov(apart.t())) @ mean)
