"""The Fiedler vector of a connected graph, where it is found in bounded time."""

from typing import Optional

import numpy as np
from scipy.sparse import csgraph, csr_matrix, identity
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

#: Up to this many nodes, all eigenvectors of a dense matrix are faster than one of a sparse one.
_DENSE = 400
#: Up to this many nodes, a factorization is tried first.
_FACTORED = 2000
#: Bounds of the operations of a factorization, and of the Lanczos method.
_MAX_FACTORING, _MAX_ITERATING = 2 * 10**9, 10**7
#: Restarts of the Lanczos method, at most.
_RESTARTS = 100
#: What is added to the Laplacian, whose smallest eigenvalue is 0, before it is factored.
_SHIFT = 1e-6
#: Digits to which a Fiedler vector is rounded: entries that are closer tie.
_DIGITS = 9


def fiedler_vector(adj: csr_matrix) -> Optional[np.ndarray]:
    """Returns the eigenvector of the second smallest eigenvalue of the Laplacian, rounded.

    Its sign is that of a positive skewness. Returns `None` where the eigenvector is not found
    within the bounds: where few edges join large parts that are dense.
    """
    n = adj.shape[0]
    if n < 3:
        return np.arange(n, dtype=float)
    vector: Optional[np.ndarray]
    laplacian = csgraph.laplacian(adj) if n > _DENSE else None
    if laplacian is None:
        vector = np.linalg.eigh(np.diag(np.diff(adj.indptr)) - adj.toarray())[1][:, 1]
    elif n <= _FACTORED:
        vector = _by_factors(laplacian)
        vector = _by_iteration(laplacian) if vector is None else vector
    else:
        # The factors of a random graph hold n^2 numbers.
        vector = _by_iteration(laplacian)
        vector = _by_factors(laplacian) if vector is None else vector
    if vector is None:
        return None
    vector = (vector * np.sqrt(n)).round(_DIGITS)
    skew = (vector**3).sum().round(_DIGITS)
    if skew < 0 or (skew == 0 and vector[np.flatnonzero(vector)[0]] < 0):
        vector = -vector
    return vector


def _by_iteration(laplacian: csr_matrix) -> Optional[np.ndarray]:
    """The Lanczos method, which converges where the eigenvalue is not small."""
    n = laplacian.shape[0]
    restarts = min(_RESTARTS, _MAX_ITERATING // (n + laplacian.nnz))
    shifted = (laplacian + identity(n)).tocsr()  # accuracy is relative: no eigenvalue is 0
    return _second(shifted, restarts, which="SA")


def _by_factors(laplacian: csr_matrix) -> Optional[np.ndarray]:
    """The Lanczos method with the inverse, whose factors are banded in a Cuthill-McKee order."""
    n = laplacian.shape[0]
    order = csgraph.reverse_cuthill_mckee(laplacian.tocsr(), symmetric_mode=True)
    banded = laplacian.tocsr()[order][:, order].tocoo()
    bandwidth = int(np.abs(banded.row - banded.col).max())
    if n * bandwidth**2 > _MAX_FACTORING:
        return None
    shifted = (banded + _SHIFT * identity(n)).tocsc()
    factors = splu(shifted, "NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator((n, n), factors.solve)
    restarts = min(_RESTARTS, _MAX_ITERATING // (n * (bandwidth + 10)))
    vector = _second(banded.tocsc(), restarts, sigma=-_SHIFT, which="LM", OPinv=inverse)
    return None if vector is None else vector[np.argsort(order)]


def _second(matrix: csr_matrix, restarts: int, **settings: object) -> Optional[np.ndarray]:
    """The eigenvector of the second smallest eigenvalue, if it converges."""
    start = np.linspace(1, 2, matrix.shape[0])
    try:
        values, vectors = eigsh(matrix, k=2, v0=start, maxiter=max(restarts, 1), **settings)
    except ArpackNoConvergence:
        return None
    return vectors[:, values.argsort()[1]]
