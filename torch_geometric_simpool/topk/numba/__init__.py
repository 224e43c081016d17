"""The CPU backend of the sparse top k, compiled by Numba on first use.

`backend` turns edges into a description of all nodes (`describe`: a sparse matrix, its transpose
and norms), counts the products of each row, and computes rows on `threads`. `short` computes rows
with few products that are integers, and `rows` all others. Both add up dot products by `sums`.
`best` collects the best candidates, `keys` compares them. `csr` and `power` build matrices,
`mapped` describes graphs on disk, `product` multiplies sparse matrices for recommendations, `jit`
compiles.

The package needs Numba: recommendations and node orders import `csr`, `jit` and `product`. The
kernels of the top k are imported when a top k is first computed on a CPU.
"""
