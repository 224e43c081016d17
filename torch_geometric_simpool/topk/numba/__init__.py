"""The CPU backend of the sparse top k, compiled by Numba on first use.

Read `select`, which calls `describe` (edges to a sparse matrix and its norms, by `matrices`) and
`plan` (candidates, hubs, work), and runs a kernel on `threads`; of a few rows, `nearby` first
leaves out edges. The kernels are in `unweighted` and `weighted`; they are made of `order` (keys),
`short` (rows of few products), `heap` (the best `k`), `counting`, `hubs` and `read_ahead`. `csr`
and `product` build matrices. `arrays` holds the named tuples that all of them take;
`jit` compiles them. `disk` and `external` do the same for graphs on disk.

Nothing imports this folder before a top k is computed on a CPU, so that the torch backend
works where Numba does not.
"""
