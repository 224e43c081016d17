"""The Fiedler vector of a connected graph, where it is computed in bounded time."""

from typing import Optional

import numpy as np
from scipy.sparse import csgraph, csr_matrix, identity
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

#: Up to this many nodes, all eigenvectors of a dense matrix are faster than one of a sparse one.
_DENSE = 400
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

    Its sign is that of a positive skewness. Returns `None` where factors of the Laplacian would be
    too large, as of random graphs.
    """
    n = adj.shape[0]
    if n < 3:
        return np.arange(n, dtype=float)
    laplacian = csgraph.laplacian(adj)
    vector: Optional[np.ndarray]
    if n <= _DENSE:
        vector = np.linalg.eigh(laplacian.toarray())[1][:, 1]
    else:
        vector = _by_factors(laplacian)
    if vector is None:
        return None
    vector = (vector * np.sqrt(n)).round(_DIGITS)
    skew = (vector**3).sum().round(_DIGITS)
    return -vector if (skew or vector[np.flatnonzero(vector)[0]]) < 0 else vector


def _by_factors(laplacian: csr_matrix) -> Optional[np.ndarray]:
    """Uses the Lanczos method with the inverse, which is banded in a Cuthill-McKee order."""
    n = laplacian.shape[0]
    order = csgraph.reverse_cuthill_mckee(laplacian.tocsr(), symmetric_mode=True)
    banded = laplacian.tocsr()[order][:, order].tocoo()
    bandwidth = int(np.abs(banded.row - banded.col).max())
    if n * bandwidth**2 > _MAX_FACTORING:
        return None
    shifted = (banded + _SHIFT * identity(n)).tocsc()
    factors = splu(shifted, "NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator((n, n), factors.solve)
    restarts = min(_RESTARTS, _MAX_ITERATING // (n * (bandwidth + 10)) + 1)
    settings = {"v0": np.linspace(1, 2, n), "maxiter": restarts, "OPinv": inverse}
    try:
        values, vectors = eigsh(banded.tocsc(), k=2, sigma=-_SHIFT, which="LM", **settings)
    except ArpackNoConvergence:
        return None
    return vectors[:, values.argsort()[1]][np.argsort(order)]
