"""The backend `'triton'` of the top k, for a GPU.

The torch backend computes descriptions and norms, and `backend` plans the rows. `kernels` has two
kernels: the first adds the products of a row in a hash table, and the second reads the table and
selects the best candidates.

Arguments of kernels in capitals are constants, and each combination is compiled separately. The
kernels run on a GPU, or on a CPU in Triton's interpreter, which is slow and meant for tests.
"""
