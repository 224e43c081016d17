"""The kernels in Triton's interpreter return the results of the CPU backend on every path."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.backends import INTERPRETED
from helpers.graphs import draw, union
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import backend as torch_backend
from torch_geometric_simpool.topk.torch import csr

pytest.importorskip("triton")

from torch_geometric_simpool.topk.triton import backend as triton_backend
from torch_geometric_simpool.topk.triton import kernels

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)

DOUBLE = torch.float64
MEASURES = ["cosine", "jaccard", "dice", "overlap"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks small, so that rows of small graphs take several programs and blocks.

    Tables of rows with few products are hash tables, as in large graphs.
    """
    monkeypatch.setattr(triton_backend, "PROGRAMS", 2)
    monkeypatch.setattr(triton_backend, "PRODUCTS", 8)
    monkeypatch.setattr(triton_backend, "FEW_NODES", 0)
    monkeypatch.setattr(triton_backend, "DENSE", 1)
    monkeypatch.setattr(triton_backend, "SLOTS", 16)
    monkeypatch.setattr(triton_backend, "LONG", 64)
    monkeypatch.setattr(triton_backend, "LONG_SLOTS", 32)


def both(
    edge_index: Tensor, k: int, weight: Any, num_nodes: Any, **settings: Any
) -> tuple[Tensor, Tensor]:
    """Returns the result of the Triton backend, and asserts the bits of the torch backend."""
    result, expected = (
        topk_similarity(edge_index, k, weight, num_nodes, backend=backend, **settings)
        for backend in ("triton", "torch")
    )
    assert torch.equal(result[1], expected[1])
    assert torch.equal(result[0], expected[0])
    return result


SETTINGS: list[dict[str, Any]] = [
    {},
    {"loop": False, "min_similarity": 0.5, "max_degree": 5},
    {"candidates": torch.arange(0, 20, 2)},
    {"nodes": torch.tensor([7, 1, 3, 1, 3, 1, 0, 1, 11])[::2], "lam": 1.0},
]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_kind_of_weights(weighted: bool, measure: str) -> None:
    """Graphs are small, because the interpreter takes about a tenth of a second for a row."""
    graph, _ = union([draw("undirected", 1), draw("directed", 2), draw("isolated", 3)])
    weight = torch.randint(-3, 4, (len(graph.edges),)).double() if weighted else None
    settings = SETTINGS[(MEASURES.index(measure) + weighted) % len(SETTINGS)]
    both(graph.edge_index, 4, weight, graph.num_nodes, measure=measure, **settings)


def test_nodes_whose_weights_cancel() -> None:
    """The weights of node 3 cancel, so its norm is zero, and it is similar to no node."""
    edge_index = torch.tensor([[0, 1, 2, 3, 3, 0], [1, 0, 0, 0, 0, 3]])
    weight = torch.tensor([1.0, 1.0, 2.0, 1.0, -1.0, 0.0])
    _, index = both(edge_index, 4, weight, 4)
    assert 3 not in index


def test_powers() -> None:
    graph = draw("directed", 4)
    both(graph.edge_index, 5, None, graph.num_nodes, p=2, lam=1.0)
    both(graph.edge_index, 5, None, graph.num_nodes, p=3, measure="dice")


def test_what_the_torch_backend_computes() -> None:
    """The torch backend computes sums that may be rounded, and rows without neighbors."""
    graph = draw("undirected", 1)
    size = (len(graph.edges),)
    for weight, settings in (
        (torch.rand(size), {}),
        (torch.full(size, 2.0**13), {"lam": 1.0}),
        (None, {"exclude_neighbors": True}),
    ):
        both(graph.edge_index, 4, weight, graph.num_nodes, **settings)
        edges = EdgeList(graph.edge_index, weight, graph.num_nodes)
        spec = TopKSettings(**settings)
        prepared = triton_backend.prepare(edges, spec, Budget(None, True))
        assert isinstance(prepared, torch_backend.TorchGraph)


def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong norm changes the order of candidates."""
    graph = draw("undirected", 1)
    prepare = torch_backend.prepare

    def wrong(*arguments: Any) -> Any:
        prepared = prepare(*arguments)
        norm2 = prepared.norms.norm2.clone()
        norm2[0] *= 4
        return prepared._replace(norms=prepared.norms._replace(norm2=norm2))

    expected = topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes, backend="torch")
    monkeypatch.setattr(torch_backend, "prepare", wrong)
    result = topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes, backend="triton")
    assert not torch.equal(result[0], expected[0])


def test_rows_that_are_too_long_for_the_kernels() -> None:
    """The torch backend computes calls whose `k` is larger than a block of candidates."""
    edge_index = torch.randint(0, 300, (2, 400)).unique(dim=1)
    for k in (200, 256, 257):
        both(edge_index, k, None, 300, nodes=torch.tensor([0, 7]))


def test_long_rows_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most nodes share features, so lists and tables have several blocks, in small batches."""
    monkeypatch.setattr(csr, "BLOCK", 1 << 13)
    links = torch.rand(300, 5) < torch.tensor([0.9, 0.6, 0.5, 0.4, 0.3])
    edge_index = torch.cat([links.nonzero().t(), torch.randint(5, 300, (2, 200))], dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    nodes = torch.tensor([0, 200, 4, 150])
    both(edge_index, 20, None, 300, nodes=nodes)
    both(edge_index, 3, None, 300, nodes=nodes[:0])
    weight = torch.randint(1, 4, (edge_index.size(1),))
    both(edge_index, 40, weight, 300, measure="dice", loop=False, nodes=nodes[2:])


def test_a_table_wraps_around() -> None:
    """Two candidates of the last slot of a table do not overwrite the next table."""
    last_slots = [j for j in range(99) if ((j * 2654435761) >> 12) & 3 == 3]
    ids, tables = torch.tensor(last_slots[:2]).int(), torch.zeros(16).int()
    first, ptr, ones = torch.tensor([0]), torch.tensor([0, 2]), torch.ones(2).int()
    kernels.fill_tables[(1, 1)](
        first, first, torch.tensor([0, 1]), first.int(), ones, ptr, ids, ones, tables, 4,
        SIZE=4, HASHED=True,
    )  # fmt: skip
    assert tables[[3, 0]].tolist() == (ids + 1).tolist()
    assert tables[1:3].tolist() == [0, 0]
    assert tables[4:].tolist() == [1, 0, 0, 1] + [0] * 8


def test_keys_that_differ_by_less_than_float32_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 20 is more similar to row 0 than row 1 is, but not by the keys in float32."""
    monkeypatch.setattr(triton_backend, "DENSE", 100)  # row 20 is read after row 1
    edge_index = torch.tensor([[0, 1, 1, 20, 20], [0, 0, 1, 0, 2]])
    for first, second in ((4105, 4119), (-4119, -4105)):
        weight = torch.tensor([1, first, 11, second, 11])
        _, index = both(edge_index, 1, weight, (21, 3), loop=False, nodes=torch.tensor([0]))
        assert index.item() == 20


def test_blocks_of_tables_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with few and with many products alternate, and a dense table follows another."""
    monkeypatch.setattr(csr, "BLOCK", 1 << 11)
    popularity = 1 / torch.arange(1.0, 101)
    edge_index = torch.stack([popularity.multinomial(150, replacement=True) for _ in range(2)])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    prepared = triton_backend.prepare(
        EdgeList(edge_index, None, 100), TopKSettings(), Budget(None, True)
    )
    nodes = torch.tensor([90, 0, 60, 1, 30, 2, 99, 3, 50, 4, 70, 5, 95, 6])
    assert isinstance(prepared, triton_backend.TritonGraph)
    sizes = [size for size, _, _ in prepared._plan(nodes, Budget(None, True)).blocks]
    assert len(set(sizes)) > 3
    assert sizes.count(100) > 1
    small = Budget(1, force=True)  # rows share the memory of the longest table
    assert len(prepared._plan(nodes, small).blocks) < nodes.numel()
    both(edge_index, 5, None, 100, nodes=nodes)


def test_the_budget() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="memory_budget"):
        topk_similarity(edge_index, 2, backend="triton", memory_budget=10)
    assert estimate_topk(edge_index, 2, backend="triton", memory_budget=10).refused
