"""The backend `'triton'` of the top k, for a GPU.

The torch backend computes descriptions and norms, and `backend` plans the rows. Two kernels compute
them, in `kernels`: one adds the products of a row in a hash table, the other reads the table and
keeps the best candidates.

Arguments of kernels in capitals are constants when a kernel is compiled, so each combination is a
kernel of its own. The kernels run on a GPU, or on a CPU in Triton's interpreter, which is slow and
meant for tests.
"""
