"""The door: which calls take a fast path, and how they are switched off."""

import subprocess
import sys
from unittest import mock

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool import engine, topk_similarity
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.functional.messages import sum_messages
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm

BATCH = torch.zeros(300, dtype=torch.long)


def is_fast(x: Tensor) -> bool:
    return segment_matmul_t(x.requires_grad_(), x, BATCH, 1).grad_fn.name() == "_MatmulTBackward"


def test_disabled() -> None:
    x = torch.randn(300, 20)
    assert is_fast(x)
    with engine.disabled():
        assert not is_fast(x)
        with engine.disabled("spmm"):
            assert not is_fast(x)
        assert not is_fast(x)
    assert is_fast(x)
    with engine.disabled("spmm", "messages"):
        assert is_fast(x)
    with pytest.raises(ZeroDivisionError), engine.disabled():
        raise ZeroDivisionError
    assert is_fast(x)
    with pytest.raises(ValueError, match=r"`parts` must be among .*, got 'pooling'"):
        engine.disabled("pooling").__enter__()


def test_what_takes_no_fast_path() -> None:
    """Few numbers, other types, autocast, functional transforms, and a compiler."""
    x = torch.randn(300, 20, requires_grad=True)
    assert not is_fast(torch.randn(300, 3))
    assert not is_fast(x.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_fast(x.detach().clone())

    def loss(x: Tensor) -> Tensor:
        return segment_matmul_t(x, x, BATCH, 1).tanh().sum()

    x = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(torch.func.grad(loss)(x.detach()), expected)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x.detach()), loss(x.detach()))


def test_large_sums_are_compiled_and_small_ones_are_not() -> None:
    x = torch.randn(300, 512, requires_grad=True)
    edges = torch.randint(0, 300, (2, dispatch.MIN_MESSAGES // 512 + 1))
    assert sum_messages(x, x, None, edges).grad_fn.name() == "_SumMessagesBackward"
    assert sum_messages(x, x, None, edges[:, 2:]).grad_fn.name() != "_SumMessagesBackward"
    row, col = edges
    assert spmm(row, col, x, None, 300).grad_fn.name() == "_SpMMBackward"
    assert spmm(row[2:], col[2:], x, None, 300).grad_fn.name() != "_SpMMBackward"
    edge = torch.zeros(edges.size(1), 512)
    assert sum_messages(x, x, edge, edges).grad_fn.name() != "_SumMessagesBackward"


def test_an_index_out_of_range_never_reaches_compiled_code() -> None:
    x = torch.randn(5, 3)
    for wrong in ([5, 0], [0, 5], [-1, 0], [0, -1]):
        row, col = torch.tensor(wrong).view(2, 1)
        with mock.patch.object(dispatch, "MIN_MESSAGES", 0):
            with pytest.raises((IndexError, RuntimeError), match="index"):
                spmm(row, col, x, None, 5)
            with pytest.raises((IndexError, RuntimeError), match="index"):
                sum_messages(x, x, None, torch.stack([row, col]))


def test_the_top_k_without_the_engine_does_not_load_it() -> None:
    program = """
import sys
import torch
from torch_geometric_simpool import engine, topk_similarity
ENGINE = "torch_geometric_simpool.topk.numba.backend"
edges = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
with engine.disabled():
    print(topk_similarity(edges, 2)[1].tolist(), ENGINE in sys.modules)
print(topk_similarity(edges, 2)[1].tolist(), ENGINE in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[[0, -1], [1, 2], [1, 2]] False",
        "[[0, -1], [1, 2], [1, 2]] True",
    ], done.stderr


def test_an_explicit_backend_stays() -> None:
    with engine.disabled():
        assert topk_similarity(torch.tensor([[0, 1], [1, 0]]), 1, backend="numba")[1].tolist() == [
            [0],
            [1],
        ]
