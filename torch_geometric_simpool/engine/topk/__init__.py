"""The CPU backend of the sparse top k, compiled by Numba on first use.

Read `select`, which calls `describe` (edges to a sparse matrix and its norms, by `matrices`)
and `plan` (work, hubs, memory), and runs a kernel on `threads`. The kernels are in
`unweighted` and `weighted`; they are made of `order` (keys), `heap` (the best `k`),
`counting`, `hubs` and `read_ahead`. `csr` and `product` build matrices. `arrays` holds the
named tuples that all of them take; `engine.compile` compiles them.

Nothing imports this folder before a top k is computed on a CPU, so that the torch backend
works where Numba does not.
"""
