"""Products with the rows of each graph: small ones, one after the other, on all threads.

A library of linear algebra takes its threads into each product, and with a few hundred
nodes a graph they come to nothing: two are no faster than one. Here each thread takes
products of its own, with the same inner loop: a tile of the result is held in registers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from torch_geometric_simpool.engine import team
from torch_geometric_simpool.engine.team import ids, numbers, take
from torch_geometric_simpool.engine.topk import threads
from torch_geometric_simpool.engine.topk.compiled import kernel

#: A graph of more nodes is multiplied in parts, which are added up: threads share the work on
#: a large graph, whose sums are as long, and round as much, as those of a small one.
PART = 512

#: The bytes of a vector: what LLVM makes of it is up to the machine.
_VECTOR = 32


class Parts(NamedTuple):
    """Runs of rows, each of one graph, and in order."""

    #: The rows of part `p` are those from `bounds[p]` to `bounds[p + 1]`.
    bounds: np.ndarray
    #: The graph of each part.
    graph: np.ndarray


def parts(count: np.ndarray) -> Parts:
    """The parts of graphs with `count` nodes; graphs without nodes have none."""
    number = -(-count // PART)
    graph = np.repeat(np.arange(count.size, dtype=np.int64), number)
    # The parts of a graph are counted from its first.
    within = np.arange(graph.size, dtype=np.int64) - np.repeat(number.cumsum() - number, number)
    first = (count.cumsum() - count)[graph] + PART * within
    return Parts(np.append(first, count.sum()), graph)


def product(left: Tensor, right: Tensor, of: Parts, batch_size: int) -> Tensor:
    """`left^T @ right` of each graph, `[N, K]`, `[N, F]` -> `[B, K, F]`."""
    num_nodes = int(of.bounds[-1])
    if not left.size(0) == right.size(0) == num_nodes:
        raise ValueError(
            f"`left` and `right` must have a row for each of the {num_nodes} nodes of `batch`, got "
            f"{left.size(0)} and {right.size(0)}"
        )
    left, right = _in_rows(left), _in_rows(right)
    found = left.new_empty(of.graph.size, left.size(1), right.size(1))
    given = (torch.from_numpy(of.bounds), left, right, found)
    work = left.numel() * right.size(1)
    team.run(_product, given, blocks(of, work), work)
    if np.array_equal(of.graph, np.arange(batch_size)):
        return found
    out = found.new_zeros(batch_size, *found.shape[1:])
    return out.index_add_(0, torch.from_numpy(of.graph), found)


def spread(
    pairs: Sequence[tuple[Tensor, Tensor]], of: Parts, onto: Optional[Tensor] = None
) -> Tensor:
    """Rows times the matrix of their graph, `[N, F]`, `[B, F, K]` -> `[N, K]`, the sum over pairs.

    It is added to what is in `onto`, if that is given, and which is returned.
    """
    num_nodes, (rows, of_graph) = int(of.bounds[-1]), pairs[0]
    out = rows.new_empty(num_nodes, of_graph.size(-1)) if onto is None else onto
    settings = torch.from_numpy(np.array([onto is not None, len(pairs)], np.int64))
    given = [torch.from_numpy(of.bounds), torch.from_numpy(of.graph), settings, out]
    work = 0
    for rows, of_graph in pairs:
        expected = rows.size(1), out.size(1)
        if rows.size(0) != num_nodes or of_graph.shape[1:] != expected:
            raise ValueError(
                f"rows and matrices must have shapes [{num_nodes}, F] and [B, F, {out.size(1)}], "
                f"got {list(rows.shape)} and {list(of_graph.shape)}"
            )
        given += [_in_rows(rows), of_graph.contiguous()]
        work += rows.numel() * out.size(1)
    if out.shape != (num_nodes, given[-1].size(-1)) or not out.is_contiguous():
        raise ValueError(
            f"`onto` must be contiguous, [{num_nodes}, {given[-1].size(-1)}], got "
            f"{list(out.shape)} with strides {out.stride()}"
        )
    team.run(_spread, given, blocks(of, work), work)
    return out


def blocks(of: Parts, work: int) -> np.ndarray:
    """The bounds of blocks of parts, with about as many rows each."""
    number = max(4 * torch.get_num_threads(), work // threads.BLOCK)
    shares = np.linspace(0, of.bounds[-1], number + 1)
    return np.searchsorted(of.bounds, shares).astype(np.int64)


def _in_rows(matrix: Tensor) -> Tensor:
    return matrix if matrix.stride(-1) == 1 else matrix.contiguous()


def _product_32(data):
    _product_of(data, np.float32, _VECTOR // 4)


def _product_64(data):
    _product_of(data, np.float64, _VECTOR // 8)


_product = {torch.float32: _product_32, torch.float64: _product_64}


@kernel
def _product_of(data, dtype, lanes):
    bounds = ids(data, 0)
    left, num_clusters, of_left = numbers(data, 1, dtype)
    right, width, of_right = numbers(data, 2, dtype)
    out, _, _ = numbers(data, 3, dtype)
    start, end = take(data)
    while start >= 0:
        for part in range(start, end):
            first, count = bounds[part], bounds[part + 1] - bounds[part]
            a = (left, first * of_left, 1, of_left)
            b = (right, first * of_right, of_right)
            c = (out, part * num_clusters * width, width)
            _multiply(a, b, c, (num_clusters, width, count), False, lanes)
        start, end = take(data)


def _spread_32(data):
    _spread_of(data, np.float32, _VECTOR // 4)


def _spread_64(data):
    _spread_of(data, np.float64, _VECTOR // 8)


_spread = {torch.float32: _spread_32, torch.float64: _spread_64}


@kernel
def _spread_of(data, dtype, lanes):
    bounds, graph, settings = ids(data, 0), ids(data, 1), ids(data, 2)
    out, num_clusters, of_out = numbers(data, 3, dtype)
    start, end = take(data)
    while start >= 0:
        for part in range(start, end):
            first, count = bounds[part], bounds[part + 1] - bounds[part]
            c = (out, first * of_out, of_out)
            for pair in range(settings[1]):
                given, width, of_given = numbers(data, 4 + 2 * pair, dtype)
                of_graph, _, _ = numbers(data, 5 + 2 * pair, dtype)
                a = (given, first * of_given, of_given, 1)
                b = (of_graph, graph[part] * width * num_clusters, num_clusters)
                add = pair > 0 or settings[0] != 0
                _multiply(a, b, c, (count, num_clusters, width), add, lanes)
        start, end = take(data)


@kernel
def _multiply(a, b, c, sizes, add, lanes):
    """`C = A B`, or `C += A B`, `[m, k]` and `[k, n]`, in tiles of `C` that fit the registers.

    A matrix is an array, where in it the matrix begins, and how far apart its rows are, and
    for `A` its columns.
    """
    (x, x0, x_row, x_column), (y, y0, y_row), (z, z0, z_row) = a, b, c
    m, n, k = sizes
    j = 0
    while n - j >= 4 * lanes:
        i = 0
        while m - i >= 4:
            xi, zi = x0 + i * x_row, z0 + i * z_row + j
            _tile_4_4(x, xi, x_row, x_column, y, y0 + j, y_row, z, zi, z_row, k, add)
            i += 4
        while i < m:
            xi, zi = x0 + i * x_row, z0 + i * z_row + j
            _tile_1_4(x, xi, x_row, x_column, y, y0 + j, y_row, z, zi, z_row, k, add)
            i += 1
        j += 4 * lanes
    while n - j >= lanes:
        i = 0
        while m - i >= 8:
            xi, zi = x0 + i * x_row, z0 + i * z_row + j
            _tile_8_1(x, xi, x_row, x_column, y, y0 + j, y_row, z, zi, z_row, k, add)
            i += 8
        while i < m:
            xi, zi = x0 + i * x_row, z0 + i * z_row + j
            _tile_1_1(x, xi, x_row, x_column, y, y0 + j, y_row, z, zi, z_row, k, add)
            i += 1
        j += lanes
    while j < n:
        for i in range(m):
            xi, zi = x0 + i * x_row, z0 + i * z_row + j
            total = z[zi] if add else z.dtype.type(0)
            for t in range(k):
                total += x[xi + t * x_column] * y[y0 + j + t * y_row]
            z[zi] = total
        j += 1


def _tile(height: int, vectors: int) -> Any:
    """An inner loop: `height` rows of `C`, as wide as so many vectors."""

    @intrinsic
    def tile(
        context: Any,
        x: Any,
        xi: Any,
        x_row: Any,
        x_column: Any,
        y: Any,
        yj: Any,
        y_row: Any,
        z: Any,
        zi: Any,
        z_row: Any,
        k: Any,
        add: Any,
    ) -> Any:
        place = types.intp
        signature = types.void(
            *(x, place, place, place, y, place, place, z, place, place, place, types.boolean)
        )
        return signature, _generator(height, vectors)

    return tile


def _generator(height: int, vectors: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, y, z = (
            context.make_array(signature.args[n])(context, builder, args[n]).data for n in (0, 4, 7)
        )
        _, xi, x_row, x_column, _, yj, y_row, _, zi, z_row, k, add = args
        number = context.get_data_type(signature.args[0].dtype)
        num_bytes = signature.args[0].dtype.bitwidth // 8
        lanes = _VECTOR // num_bytes
        vector = ir.VectorType(number, lanes)
        multiply_add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fmuladd.v{lanes}f{8 * num_bytes}",
        )

        def times(place: Any, n: int) -> Any:
            return builder.mul(place, ir.Constant(place.type, n))

        def vector_at(array: Any, place: Any, n: int) -> Any:
            place = builder.add(place, ir.Constant(place.type, n * lanes))
            return builder.bitcast(builder.gep(array, [place]), vector.as_pointer())

        def all_lanes(value: Any) -> Any:
            undefined = ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.IntType(32), 0)
            one = builder.insert_element(undefined, value, first)
            mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            return builder.shuffle_vector(one, undefined, mask)

        # Variables, which LLVM turns into registers.
        zero = ir.Constant(vector, None)
        tile = [
            [cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(height)
        ]
        for row in tile:
            for total in row:
                builder.store(zero, total)
        with builder.if_then(add):
            for i, row in enumerate(tile):
                place = builder.add(zi, times(z_row, i))
                for v, total in enumerate(row):
                    found = builder.load(vector_at(z, place, v), align=num_bytes)
                    builder.store(found, total)
        with cgutils.for_range(builder, k) as loop:
            place = builder.add(yj, builder.mul(loop.index, y_row))
            others = [builder.load(vector_at(y, place, v), align=num_bytes) for v in range(vectors)]
            place = builder.add(xi, builder.mul(loop.index, x_column))
            for i, row in enumerate(tile):
                own = builder.load(builder.gep(x, [builder.add(place, times(x_row, i))]))
                own = all_lanes(own)
                for total, other in zip(row, others):
                    added = builder.call(multiply_add, [own, other, builder.load(total)])
                    builder.store(added, total)
        for i, row in enumerate(tile):
            place = builder.add(zi, times(z_row, i))
            for v, total in enumerate(row):
                builder.store(builder.load(total), vector_at(z, place, v), align=num_bytes)
        return context.get_dummy_value()

    return generate


_tile_4_4, _tile_1_4, _tile_8_1, _tile_1_1 = (
    _tile(height, vectors) for height, vectors in ((4, 4), (1, 4), (8, 1), (1, 1))
)
