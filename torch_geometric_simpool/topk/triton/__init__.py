"""The Triton backend of the sparse top k: it chooses the best of each row on a GPU.

Read `select`, which calls `plan` (which rows are short, long or share hubs) and `launch`, which
starts the kernels: `short_rows` computes rows of few products, several in one program, by sorting;
`long_rows` the others, with a hash table for each in global memory; `hubs` finds, before both, the
best of those that a row shares only hubs with. The kernels are made of `sums` and of `ordering`
(keys, and the order of candidates). `matrices` turns descriptions into what the kernels read, and
finds the hubs; `arrays` holds the named tuples. `traffic` counts the bytes that a plan reads and
writes.

Arguments of kernels in capitals are constants when a kernel is compiled, so each combination is a
kernel of its own: `WEIGHTED`, `EXACT`, `SIGNED` and `JACCARD` are fields of `arrays.Descriptions`,
`REDUCE` is the opposite of its `small`; `LOOP` and `TINY` are of `launch.Options`; `SOME` says that
rows of some nodes are asked for, `HUBS` that there are hubs. Others are sizes of blocks.

The kernels run on a GPU, or on a CPU in Triton's interpreter, which is slow and meant for tests;
`available` tells whether they can. `launch` and the kernels alone import Triton: everything else is
PyTorch.
"""
