"""The equations in exact rational arithmetic, written to be obvious and not fast.

The oracle shares no code with the package. Roots and logarithms are the last step, and are taken of
exact numbers.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Matrix = list[list[Fraction]]


class Candidate(NamedTuple):
    """A node that may stand in a row of the top k."""

    #: An exact number that orders the candidates of one row as their similarity does.
    key: Fraction
    node: int
    value: float
    #: The terms of the dot product and of the norm. Candidates with equal terms have equal rounded
    #: sums, so they tie.
    summands: tuple[tuple[int, ...], tuple[int, ...]]


def adjacency(
    edges: Sequence[tuple[int, int]], weights: Sequence[float] | None, num_nodes: int
) -> Matrix:
    """Returns the adjacency matrix. Parallel edges add up, and self-loops count."""
    adj = [[Fraction(0)] * num_nodes for _ in range(num_nodes)]
    for number, (i, j) in enumerate(edges):
        adj[i][j] += 1 if weights is None else Fraction(weights[number])
    return adj


class Descriptions(NamedTuple):
    """The matrix `[A_hat | A_hat^T]` as integers over one denominator."""

    rows: list[list[int]]
    denominator: int


def descriptions(adj: Matrix, p: int, lam: float) -> Descriptions:
    """Returns rows `[A_hat[i, :] | A_hat[:, i]]`, with the exact value of the float `lam`."""
    nodes = range(len(adj))
    looped = [[adj[i][j] + (Fraction(lam) if i == j else 0) for j in nodes] for i in nodes]
    unit = math.lcm(1, *(a.denominator for row in looped for a in row))
    matrix = [[int(a * unit) for a in row] for row in looped]
    power = matrix
    for _ in range(p - 1):
        power = [[sum(power[i][m] * matrix[m][j] for m in nodes) for j in nodes] for i in nodes]
    return Descriptions([[*power[i], *(row[i] for row in power)] for i in nodes], unit**p)


def dots(rows: list[list[int]]) -> list[list[int]]:
    """Returns the inner products of all pairs."""
    return [[sum(a * b for a, b in zip(d_i, d_j)) for d_j in rows] for d_i in rows]


def similarity(adj: Matrix, p: int, lam: float, measure: str) -> list[list[float]]:
    """Returns the dense `C`, by the formulas of `structural_similarity`."""
    rows, denominator = descriptions(adj, p, lam)
    dot = dots(rows)

    def of(i: int, j: int) -> float:
        if dot[i][i] == 0 or dot[j][j] == 0:
            return 0.0
        if measure == "cosine":
            return cosine(dot[i][j], dot[i][i], dot[j][j])
        if measure in QUOTIENTS:
            return float(QUOTIENTS[measure](dot[i][j], dot[i][i], dot[j][j]))
        if measure == "l2":
            squares = sum((a - b) ** 2 for a, b in zip(rows[i], rows[j]))
            return 1 / (1 + math.sqrt(Fraction(squares, denominator**2)))
        assert measure == "hamming"
        different = sum(a != b for a, b in zip(rows[i], rows[j]))
        return float(1 - Fraction(different, len(rows[i])))

    return [[of(i, j) for j in range(len(adj))] for i in range(len(adj))]


#: Measures without a root: functions of a dot product and two squared norms.
QUOTIENTS = {
    "jaccard": lambda common, norm2_i, norm2_j: Fraction(common, norm2_i + norm2_j - common),
    "dice": lambda common, norm2_i, norm2_j: Fraction(2 * common, norm2_i + norm2_j),
    "overlap": lambda common, norm2_i, norm2_j: Fraction(common, min(norm2_i, norm2_j)),
}


def cosine(common: int, norm2_i: int, norm2_j: int) -> float:
    """Returns the cosine as the root of an exact number."""
    return math.copysign(math.sqrt(Fraction(common**2, norm2_i * norm2_j)), common)


def candidates(
    adj: Matrix,
    p: int,
    lam: float,
    measure: str = "cosine",
    loop: bool = True,
    max_degree: int | None = None,
    excluded: frozenset[tuple[int, int]] = frozenset(),
) -> list[list[Candidate]]:
    """Returns all non-zero entries of each row, in the order of `topk_similarity`.

    Features that more than `max_degree` nodes share count in norms, but not in dot products. Pairs
    that are `excluded`, in either direction, are left out.
    """
    rows, _ = descriptions(adj, p, lam)
    norm2s = [sum(a * a for a in d) for d in rows]
    squares = [tuple(sorted(a * a for a in d if a)) for d in rows]
    if max_degree is not None:
        shared = [sum(d[m] != 0 for d in rows) for m in range(2 * len(rows))]
        rows = [[a if count <= max_degree else 0 for a, count in zip(d, shared)] for d in rows]
    dot = dots(rows)
    out = []
    for i, d_i in enumerate(rows):
        found = []
        for j, d_j in enumerate(rows):
            common, norm2_i, norm2_j = dot[i][j], norm2s[i], norm2s[j]
            if common == 0 or (i == j and not loop):
                continue
            if (i, j) in excluded or (j, i) in excluded:
                continue
            if measure == "cosine":
                key = Fraction(abs(common) * common, norm2_j)
                value = cosine(common, norm2_i, norm2_j)
            else:
                key = QUOTIENTS[measure](common, norm2_i, norm2_j)
                value = float(key)
            products = tuple(sorted(a * b for a, b in zip(d_i, d_j) if a and b))
            found.append(Candidate(key, j, value, (products, squares[j])))
        out.append(sorted(found, key=lambda candidate: (-candidate.key, candidate.node)))
    return out


def float64_is_exact(adj: Matrix, p: int, lam: float) -> bool:
    """Returns whether keys are correctly rounded in float64.

    Equal similarities are then equal doubles, and there is one right order.
    """
    rows, denominator = descriptions(adj, p, lam)
    power_of_two = denominator & (denominator - 1) == 0
    return power_of_two and all(sum(a * a for a in row) < 2**49 for row in rows)


def mapped(adj: Matrix, k: int, p: int, lam: float, alpha: float) -> list[list[float]]:
    """Computes the indices mapping trick in the paper's first form: dense `C_hat`, then gather.

    The corrections of `map_indices` apply: a place is empty if `C` is zero, and missing columns are
    zero.
    """
    n = len(adj)
    c = similarity(adj, p, lam, "cosine")
    c_hat = [
        [(alpha * c[i][j] + (j + 1)) / (n + 1) * (c[i][j] != 0) for j in range(n)] for i in range(n)
    ]
    rank = [[candidate.node for candidate in row][:k] for row in candidates(adj, p, lam)]
    return [
        [c_hat[i][j] for j in chosen] + [0.0] * (k - len(chosen)) for i, chosen in enumerate(rank)
    ]


def entropy(probabilities: Sequence[float]) -> float:
    """Returns the entropy in nats, where `0 log 0 = 0`."""
    return -sum(q * math.log(q) for q in probabilities if q > 0)


def entropy_loss(s: Sequence[Sequence[float]]) -> float:
    """Returns L_E of one graph with at least one node."""
    return sum(entropy(row) for row in s) / len(s)


def cluster_loss(s: Sequence[Sequence[float]]) -> float:
    """Returns L_C of one graph with at least one node."""
    mean = [sum(row[c] for row in s) / len(s) for c in range(len(s[0]))]
    return math.log(len(mean)) - entropy(mean)


def softmax(logits: Sequence[float]) -> list[float]:
    """Returns the softmax of the logits of one node."""
    top = max(logits)
    powers = [math.exp(value - top) for value in logits]
    return [value / sum(powers) for value in powers]


def pool(
    x: Sequence[Sequence[float]], adj: Matrix, s: Sequence[Sequence[float]]
) -> tuple[list[list[float]], list[list[float]]]:
    """Returns `S^T X` and `tanh(S^T A S)` of one graph, term by term."""
    nodes, clusters = range(len(s)), range(len(s[0]))
    pooled = [[sum(s[i][c] * x[i][f] for i in nodes) for f in range(len(x[0]))] for c in clusters]
    coarse = [
        [
            math.tanh(sum(s[i][c] * float(adj[i][j]) * s[j][d] for i in nodes for j in nodes))
            for d in clusters
        ]
        for c in clusters
    ]
    return pooled, coarse
