"""Rows by their numbers: taken, and added up.

On a GPU, PyTorch adds rows in an order that varies, `index_add` as well as the backward pass of
`index_select`. These two add in the order of the index, on every device. The backward pass of each
is the other one, so that holds for gradients, too. Compiled programs run the plain forms.
"""

from torch import Tensor

from torch_geometric_simpool.engine.dispatch import accelerate


@accelerate("rows", traced=False)
def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Row `r` of the result is row `index[r]` of `x`.

    Args:
        x: `[N, *]`.
        index: `[R]`, int64.

    Returns:
        `[R, *]`. Linear time and memory; the backward pass sorts the index on a GPU.
    """
    return x.index_select(0, index)


@accelerate("rows", traced=False)
def sum_rows(x: Tensor, index: Tensor, num_rows: int) -> Tensor:
    """Row `i` of the result is the sum of the rows `x[r]` with `index[r] = i`.

    Args:
        x: `[R, *]`.
        index: `[R]`, int64.
        num_rows: `N`.

    Returns:
        `[N, *]`. Linear time and memory; it sorts the index on a GPU.
    """
    return x.new_zeros(num_rows, *x.shape[1:]).index_add(0, index, x)
