"""Measures recall, time and memory of `recommend` and other packages.

Settings are chosen on a held-out tenth of the training entries. The test entries are read once,
with the chosen settings.
"""

import importlib.util
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Optional

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from scipy.sparse import csr_matrix
from torch_geometric.metrics import LinkPredNDCG, LinkPredRecall
from torch_geometric.utils import to_dense_batch

from harness.speed.measure import in_turns
from harness.speed.topk import interactions
from torch_geometric_simpool import recommend

#: The number of recommended items.
K = 20
#: EASE inverts a dense matrix over the items.
MOST_ITEMS = 10_000


def simpool(
    train: csr_matrix, a: float, b: float, c: float, s: float, num_similar: int
) -> np.ndarray:
    """Calls this package on the edges."""
    edges = torch.from_numpy(np.stack(train.nonzero()).astype(np.int64))
    settings = {"exponents": (a, b, c, s), "num_similar": num_similar}
    return recommend(edges, K, num_nodes=train.shape, **settings)[1].numpy()


def similaripy(
    train: csr_matrix, alpha: float, beta: float, num_similar: int, transposed: int
) -> np.ndarray:
    """Calls similaripy's RP3-beta and its product of two matrices."""
    import similaripy as package

    options = {"verbose": False, "format_output": "csr", "num_threads": torch.get_num_threads()}
    model = package.rp3beta(train.T.tocsr(), alpha=alpha, beta=beta, k=num_similar, **options)
    model = model.T.tocsr() if transposed else model
    scores = package.dot_product(train, model, k=K, filter_cols=train, **options).tocoo()
    order = np.lexsort((-scores.data, scores.row))
    item, user = (torch.from_numpy(part[order]).long() for part in (scores.col, scores.row))
    return to_dense_batch(item, user, -1, K, train.shape[0])[0].numpy()


def implicit(train: csr_matrix, num_similar: int, k1: float, b: float) -> np.ndarray:
    """Calls implicit's item-based nearest neighbors with weights by BM25."""
    from implicit.nearest_neighbours import BM25Recommender

    model = BM25Recommender(num_similar, k1, b, num_threads=torch.get_num_threads())
    model.fit(train, show_progress=False)
    return model.recommend(np.arange(train.shape[0]), train, N=K)[0]


def ease(train: csr_matrix, regularization: float) -> np.ndarray:
    """Solves the linear model EASE of Steck (2019), a dense matrix over the items."""
    gram = (train.T @ train).toarray()
    gram[np.diag_indices(len(gram))] += regularization
    inverse = np.linalg.inv(gram)
    weight = -inverse / np.diag(inverse)
    np.fill_diagonal(weight, 0)
    return best_items(train, lambda block: block @ weight)


def popularity(train: csr_matrix) -> np.ndarray:
    """Recommends the items that most users have."""
    count = train.getnnz(axis=0).astype(float)
    return best_items(train, lambda block: np.tile(count, (block.shape[0], 1)))


def best_items(train: csr_matrix, scores_of: Callable[[csr_matrix], np.ndarray]) -> np.ndarray:
    """Returns the best new items of each user by dense scores, in blocks of users."""
    best = []
    for start in range(0, train.shape[0], 1000):
        block = train[start : start + 1000]
        scores = scores_of(block)
        scores[block.nonzero()] = -np.inf
        best.append(torch.from_numpy(scores).topk(min(K, scores.shape[1])).indices.numpy())
    return np.concatenate(best)


#: Methods, and the values that are tried for each setting. The first value is the default.
RECOMMENDERS: dict[Callable[..., np.ndarray], dict[str, list[float]]] = {
    simpool: {
        "a": [1, 0, 0.5, 1.5],
        "b": [1, 0.5, 0.75, 1.25, 1.5],
        "c": [0, 0.25, 0.5, 0.75],
        "s": [1, 0.5, 2],
        "num_similar": [500, 50, 200, 1000],
    },
    similaripy: {
        "alpha": [1, 0.5, 0.75, 1.25],
        "beta": [0, 0.25, 0.5, 0.75],
        "num_similar": [500, 50, 200, 1000],
        "transposed": [0, 1],
    },
    implicit: {
        "num_similar": [20, 50, 100, 200, 500],
        "k1": [1.2, 0.2, 5, 100],
        "b": [0.75, 0.25, 0.5, 1],
    },
    ease: {"regularization": [250, 50, 100, 500, 1000]},
    popularity: {},
}


def load_data(root: Optional[str]) -> dict[str, list[csr_matrix]]:
    """Returns matrices (users by items) of training and test entries by name.

    A folder has SciPy's sparse matrices `NAME_train.npz` and `NAME_test.npz`. Without a folder, the
    entries are random.
    """
    if root is None:
        entries = interactions(2_000, 1_000, 40_000).numpy()
        return {"generated": hold_out(csr_matrix((np.ones(40_000), entries)), seed=1)}
    names = sorted(path.name.removesuffix("_train.npz") for path in Path(root).glob("*_train.npz"))
    return {
        name: [
            csr_matrix(scipy.sparse.load_npz(f"{root}/{name}_{part}.npz")).sign()
            for part in ("train", "test")
        ]
        for name in names
    }


def hold_out(matrix: csr_matrix, seed: int, share: float = 0.1) -> list[csr_matrix]:
    """Splits the entries of each user at random into nine tenths and one tenth.

    At least one entry of each user is held out, as in the test data.
    """
    row, col = matrix.nonzero()
    drawn = pd.Series(np.random.default_rng(seed).random(row.size)).groupby(row)
    held_out = (drawn.rank() - 1 < share * drawn.transform("size")).to_numpy()
    return [
        csr_matrix((np.ones(mask.sum()), (row[mask], col[mask])), matrix.shape)
        for mask in (~held_out, held_out)
    ]


def accuracy(index: np.ndarray, test: csr_matrix) -> list[float]:
    """Returns the mean recall and NDCG of users with test entries."""
    items = np.where(index < 0, test.shape[1], index)  # a missing item must not count as a hit
    relevant = torch.from_numpy(np.stack(test.nonzero()).astype(np.int64))
    metrics = LinkPredRecall(K), LinkPredNDCG(K)
    for metric in metrics:
        metric.update(torch.from_numpy(items), relevant)
    return [float(metric.compute()) for metric in metrics]


def choose(
    method: Callable[..., np.ndarray], tried: dict[str, list[float]], train: csr_matrix
) -> dict[str, float]:
    """Returns settings of high recall on held-out entries, by two passes of coordinate search."""
    fit, held_out = hold_out(train, seed=0)
    chosen = {name: values[0] for name, values in tried.items()}
    for name, values in [*tried.items()] * 2:
        recalls = {v: accuracy(method(fit, **chosen | {name: v}), held_out)[0] for v in values}
        chosen[name] = max(recalls, key=recalls.__getitem__)
    return chosen


def measure(options: Namespace) -> Iterator[tuple[str, pd.DataFrame]]:
    """Chooses the settings of all installed methods, then measures the methods in turns."""
    installed = {
        method: tried
        for method, tried in RECOMMENDERS.items()
        if method not in (similaripy, implicit) or importlib.util.find_spec(method.__name__)
    }
    for title, (train, test) in load_data(options.root).items():
        calls = {}
        for method, tried in installed.items():
            if method is not ease or train.shape[1] <= MOST_ITEMS:
                chosen = choose(method, tried, train)
                calls[f"{method.__name__} {chosen}"] = partial(method, train, **chosen)
        quality = {name: accuracy(call(), test) for name, call in calls.items()}
        columns = [f"Recall@{K}", f"NDCG@{K}"]
        qualities = pd.DataFrame.from_dict(quality, orient="index", columns=columns)
        yield title, in_turns(calls, options.seconds).join(qualities)
