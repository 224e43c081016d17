"""Recall, time and memory of `recommend` beside other packages.

Settings are chosen on a tenth of the training entries, which is held out. The test entries are read
once, with the settings chosen.
"""

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import scipy.sparse
import torch
from scipy.sparse import csr_matrix

from harness.speed.graphs import interactions
from harness.speed.measure import in_turns
from torch_geometric_simpool import recommend

#: The number of recommended items.
K = 20
#: EASE inverts a dense matrix over the items.
MOST_ITEMS = 10_000


class Recommender(NamedTuple):
    """A method, and the values of its settings that are tried; the first ones are the defaults."""

    #: Returns the recommended items of each user, `[num_users, K]`.
    items: Callable[..., np.ndarray]
    settings: dict[str, list[float]]


class Result(NamedTuple):
    """The accuracy of a method on the test entries, and its costs."""

    recall: float
    ndcg: float
    seconds: float
    #: CPU seconds of all threads.
    cpu_seconds: float
    #: Bytes beyond those before the call.
    peak: Optional[int]
    settings: dict[str, float]

    def __str__(self) -> str:
        peak = "" if self.peak is None else f"{self.peak / 2**20:.0f} MiB, "
        settings = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
        return (
            f"Recall@{K} {self.recall:.4f}, NDCG@{K} {self.ndcg:.4f}, {self.seconds:.2f} s, "
            f"CPU {self.cpu_seconds:.2f} s, {peak}{settings}"
        )


def simpool(
    train: csr_matrix, a: float, b: float, c: float, s: float, num_similar: int
) -> np.ndarray:
    """Calls this package, from the edges."""
    edges = torch.from_numpy(np.stack(train.nonzero()).astype(np.int64))
    exponents = (a, b, c, s)
    _, index = recommend(
        edges, K, num_nodes=train.shape, exponents=exponents, num_similar=num_similar
    )
    return index.numpy()


def similaripy(
    train: csr_matrix, alpha: float, beta: float, num_similar: int, transposed: int
) -> np.ndarray:
    """Calls similaripy's RP3-beta and its product of two matrices."""
    import similaripy as package

    options = {"verbose": False, "format_output": "csr", "num_threads": torch.get_num_threads()}
    model = package.rp3beta(train.T.tocsr(), alpha=alpha, beta=beta, k=num_similar, **options)
    model = model.T.tocsr() if transposed else model
    scores = csr_matrix(package.dot_product(train, model, k=K, filter_cols=train, **options))
    index = np.full((train.shape[0], K), -1)
    row = np.repeat(np.arange(train.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((-scores.data, row))
    index[row, np.arange(row.size) - scores.indptr[row]] = scores.indices[order]
    return index


def implicit(train: csr_matrix, num_similar: int, k1: float, b: float) -> np.ndarray:
    """Calls implicit's item-based nearest neighbors with weights by BM25."""
    from implicit.nearest_neighbours import BM25Recommender

    threads = torch.get_num_threads()
    model = BM25Recommender(K=num_similar, K1=k1, B=b, num_threads=threads)
    with warnings.catch_warnings():  # about the format of a matrix of its own
        warnings.simplefilter("ignore")
        model.fit(train, show_progress=False)
    return model.recommend(np.arange(train.shape[0]), train, N=K)[0]


def ease(train: csr_matrix, regularization: float) -> np.ndarray:
    """Solves for the linear model of Steck (2019), a dense matrix over the items."""
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


RECOMMENDERS: dict[str, Recommender] = {
    "simpool": Recommender(
        simpool,
        {
            "a": [1, 0, 0.5, 1.5],
            "b": [1, 0.5, 0.75, 1.25, 1.5],
            "c": [0, 0.25, 0.5, 0.75],
            "s": [1, 0.5, 2],
            "num_similar": [500, 50, 200, 1000],
        },
    ),
    "similaripy, RP3-beta": Recommender(
        similaripy,
        {
            "alpha": [1, 0.5, 0.75, 1.25],
            "beta": [0, 0.25, 0.5, 0.75],
            "num_similar": [500, 50, 200, 1000],
            "transposed": [0, 1],
        },
    ),
    "implicit, BM25": Recommender(
        implicit,
        {
            "num_similar": [20, 50, 100, 200, 500],
            "k1": [1.2, 0.2, 5, 100],
            "b": [0.75, 0.25, 0.5, 1],
        },
    ),
    "EASE": Recommender(ease, {"regularization": [250, 50, 100, 500, 1000]}),
    "popularity": Recommender(popularity, {}),
}


def recommenders_of(train: csr_matrix) -> dict[str, Recommender]:
    """Returns the methods that are installed and fit into memory."""
    return {
        name: method
        for name, method in RECOMMENDERS.items()
        if name in ("popularity", "simpool")
        or (name == "EASE" and train.shape[1] <= MOST_ITEMS)
        or importlib.util.find_spec(name.partition(",")[0]) is not None
    }


def load_data(root: Optional[str]) -> dict[str, tuple[csr_matrix, csr_matrix]]:
    """Returns training and test entries by name, users by items; without a folder, random ones.

    A folder has two files `NAME_train.npz` and `NAME_test.npz` of SciPy's sparse matrices.
    """
    if root is None:
        user, item = interactions(2_000, 1_000, 40_000).numpy()
        matrix = csr_matrix((np.ones(user.size), (user, item)), shape=(2_000, 1_000))
        return {"generated": hold_out(matrix, seed=1)}
    folder, suffix = Path(root), "_train.npz"
    names = [path.name.removesuffix(suffix) for path in sorted(folder.glob(f"*{suffix}"))]
    return {
        name: (read(folder / f"{name}{suffix}"), read(folder / f"{name}_test.npz"))
        for name in names
    }


def read(path: Path) -> csr_matrix:
    """Reads a matrix; its entries are ones."""
    matrix = csr_matrix(scipy.sparse.load_npz(path))
    matrix.data = np.ones(matrix.nnz)
    return matrix


def hold_out(matrix: csr_matrix, seed: int, share: float = 0.1) -> tuple[csr_matrix, csr_matrix]:
    """Returns nine tenths of the entries of each user, drawn at random, and the others.

    As in the test data, users with few entries have one that is held out.
    """
    row, col = matrix.nonzero()
    col = col[np.lexsort((np.random.default_rng(seed).random(row.size), row))]
    count = np.bincount(row, minlength=matrix.shape[0])
    place = np.arange(row.size) - (count.cumsum() - count)[row]
    held_out = place < np.ceil(share * count)[row]
    parts = [(row[mask], col[mask]) for mask in (~held_out, held_out)]
    train, test = (csr_matrix((np.ones(part[0].size), part), matrix.shape) for part in parts)
    return train, test


def accuracy(index: np.ndarray, test: csr_matrix) -> tuple[float, float]:
    """Returns the mean recall and NDCG of users with test entries."""
    users = np.flatnonzero(np.diff(test.indptr))
    relevant = np.diff(test.indptr)[users]
    places = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr)) * test.shape[1]
    is_hit = np.isin(users[:, None] * test.shape[1] + index[users], places + test.indices)
    is_hit &= index[users] >= 0
    discount = 1 / np.log2(np.arange(K) + 2)
    ideal = discount.cumsum()[np.minimum(relevant, K) - 1]
    gain = is_hit @ discount[: index.shape[1]]
    return float((is_hit.sum(axis=1) / relevant).mean()), float((gain / ideal).mean())


def choose(method: Recommender, train: csr_matrix, rounds: int = 2) -> dict[str, float]:
    """Returns settings with a high recall on held-out entries, chosen one after the other."""
    fit, held_out = hold_out(train, seed=0)
    recall: dict[tuple[float, ...], float] = {}

    def score(settings: dict[str, float]) -> float:
        key = tuple(settings.values())
        if key not in recall:
            recall[key], _ = accuracy(method.items(fit, **settings), held_out)
        return recall[key]

    chosen = {name: values[0] for name, values in method.settings.items()}
    for _ in range(rounds):
        for name, values in method.settings.items():
            chosen = max(({**chosen, name: value} for value in values), key=score)
    return chosen


def measure_data_set(train: csr_matrix, test: csr_matrix, seconds: float) -> dict[str, Result]:
    """Chooses the settings of all methods, then measures them in turns."""
    methods = recommenders_of(train)
    settings = {}
    for name, method in methods.items():
        settings[name] = choose(method, train)
        print(f"  chosen for {name}: {settings[name]}", flush=True)
    calls: dict[str, Callable[[], Any]] = {
        name: partial(method.items, train, **settings[name]) for name, method in methods.items()
    }
    results = {}
    for name, cost in in_turns(calls, seconds).items():
        recall, ndcg = accuracy(calls[name](), test)
        costs = cost.seconds, cost.cpu_seconds, cost.peak
        results[name] = Result(recall, ndcg, *costs, settings[name])
    return results
