"""Wrong arguments, unknown settings, and edges in one direction."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool import (
    AddSimilarityEdges,
    SimilarityIndex,
    SimPool,
    StructuralSimilarity,
    estimate_topk,
    recommend,
    similarity_graph,
    similarity_of_pairs,
    topk_similarity,
)
from torch_geometric_simpool.topk import backend as backends
from torch_geometric_simpool.topk.matching import match_similar
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES, Measure, dice
from torch_geometric_simpool.topk.spec import TopKSettings

STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
NAN = torch.tensor([1.0] * 5 + [float("nan")])

#: Wrong arguments of `topk_similarity`, the type of the error, and the argument that it names.
WRONG: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"edge_index": [[0], [1]]}, TypeError, "edge_index"),
    ({"edge_index": STAR.double()}, TypeError, "edge_index"),
    ({"edge_index": STAR.to_sparse()}, TypeError, "edge_index"),
    ({"edge_index": STAR[0]}, ValueError, "edge_index"),
    ({"edge_index": STAR - 1}, ValueError, "edge_index"),
    ({"k": 0}, ValueError, "k"),
    ({"k": 2.0}, TypeError, "k"),
    ({"k": True}, TypeError, "k"),
    ({"edge_weight": [1.0] * 6}, TypeError, "edge_weight"),
    ({"edge_weight": torch.ones(5)}, ValueError, "edge_weight"),
    ({"edge_weight": torch.ones(6, 2)}, ValueError, "edge_weight"),
    ({"edge_weight": torch.ones(6).bool()}, TypeError, "edge_weight"),
    ({"edge_weight": torch.ones(6).to(torch.complex64)}, TypeError, "edge_weight"),
    ({"edge_weight": NAN}, ValueError, "edge_weight"),
    ({"edge_weight": NAN * float("inf")}, ValueError, "edge_weight"),
    ({"edge_weight": torch.ones(6, device="meta")}, ValueError, "edge_weight"),
    ({"num_nodes": 3}, ValueError, "edge_index"),
    ({"num_nodes": -1}, ValueError, "num_nodes"),
    ({"num_nodes": "4"}, TypeError, "num_nodes"),
    ({"num_nodes": (4,)}, ValueError, "num_nodes"),
    ({"num_nodes": (4, 3)}, ValueError, r"edge_index\[1\]"),
    ({"num_nodes": (3, 4)}, ValueError, r"edge_index\[0\]"),
    ({"num_nodes": (4, 4), "p": 2}, ValueError, "p"),
    ({"num_nodes": (4, 4), "lam": 1.0}, ValueError, "lam"),
    ({"num_nodes": (4, 4), "exclude_neighbors": True}, ValueError, "exclude_neighbors"),
    ({"p": 0}, ValueError, "p"),
    ({"p": 1.5}, TypeError, "p"),
    ({"lam": -1}, ValueError, "lam"),
    ({"lam": float("nan")}, ValueError, "lam"),
    ({"lam": "1"}, TypeError, "lam"),
    ({"lam": 10**5000}, ValueError, "lam"),
    ({"measure": "l2"}, ValueError, "measure"),
    ({"measure": ["cosine"]}, ValueError, "measure"),
    ({"loop": 1}, TypeError, "loop"),
    ({"min_similarity": 1.5}, ValueError, "min_similarity"),
    ({"min_similarity": "0"}, TypeError, "min_similarity"),
    ({"max_degree": -1}, ValueError, "max_degree"),
    ({"exclude_neighbors": None}, TypeError, "exclude_neighbors"),
    ({"memory_budget": 0}, ValueError, "memory_budget"),
    ({"force": 1}, TypeError, "force"),
    ({"backend": "cuda"}, ValueError, "backend"),
    ({"nodes": torch.tensor([4])}, ValueError, "nodes"),
    ({"nodes": torch.tensor([[0]])}, ValueError, "nodes"),
    ({"nodes": torch.tensor([0.0])}, TypeError, "nodes"),
    ({"nodes": torch.tensor([True])}, TypeError, "nodes"),
    ({"nodes": torch.zeros(1, dtype=torch.long, device="meta")}, ValueError, "nodes"),
    ({"nodes": "01"}, TypeError, "nodes"),
    ({"candidates": [5]}, ValueError, "candidates"),
    ({"candidates": [[0]]}, ValueError, "candidates"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    options, error, name = WRONG[number]
    arguments = {"edge_index": STAR, "k": 2, **options}
    for call in (topk_similarity, estimate_topk, similarity_graph):
        if call is similarity_graph and "loop" in options:
            continue
        with pytest.raises(error, match=f"`{name}`"):
            call(**arguments)  # type: ignore[operator]


CALLS: list[Callable[..., object]] = [
    lambda **options: SimilarityIndex(STAR, **options),
    lambda **options: similarity_graph(STAR, 2, **options),
    lambda **options: estimate_topk(STAR, 2, **options),
    lambda **options: match_similar(STAR, 2, **options),
    lambda **options: TopKSettings.parse(options),
]


@pytest.mark.parametrize("call", CALLS)
def test_settings_are_checked_by_name_and_value(call: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="`measur` is no parameter"):
        call(measur="dice")
    with pytest.raises(ValueError, match="`lam`"):
        call(lam=-1.0)
    call(measure="dice", lam=1, p=1)


def test_edges_of_named_nodes_are_refused_with_a_hint() -> None:
    pandas = pytest.importorskip("pandas")
    names = [["a", "b"], ["b", "c"]]
    for edge_index in (names, np.array(names), np.array(names, object), pandas.DataFrame(names)):
        with pytest.raises(TypeError, match=r"`edge_index`.*pandas\.factorize"):
            topk_similarity(edge_index, 2)  # type: ignore[arg-type]


def test_a_measure_without_a_kernel_is_computed_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new measure needs only a function. No kernel computes it by mistake."""
    monkeypatch.setitem(SPARSE_MEASURES, "half", Measure(lambda dot, i, j: dice(dot, i, j) / 2))
    values, index = topk_similarity(STAR, 2, measure="half")
    expected = topk_similarity(STAR, 2, measure="dice")
    assert torch.equal(2 * values, expected[0])
    assert torch.equal(index, expected[1])
    for backend in ("numba", "triton"):
        for call in (topk_similarity, estimate_topk, similarity_graph):
            with pytest.raises(ValueError, match=r"`backend` must be 'auto' or 'torch'.*'half'"):
                call(STAR, 2, measure="half", backend=backend)


def test_a_graph_has_no_loops() -> None:
    for call in (similarity_graph, match_similar):
        with pytest.raises(TypeError, match="`loop` is no parameter"):
            call(STAR, 2, loop=True)  # type: ignore[operator]
    with pytest.raises(ValueError, match="`flow`"):
        similarity_graph(STAR, 2, flow="both")
    with pytest.raises(ValueError, match="`symmetrize`"):
        similarity_graph(STAR, 2, symmetrize="all")


def test_settings_are_parsed_and_shown() -> None:
    settings = TopKSettings(lam=1)
    assert isinstance(settings.lam, float)
    assert settings.changed() == {"lam": 1.0}
    assert TopKSettings(**vars(settings)) == settings
    assert TopKSettings().changed() == {}


# ------------------------------------------------------------------ edges in one direction


def test_edges_in_one_direction_give_one_warning_for_a_call_site() -> None:
    one_way = torch.tensor([[0, 0, 0], [1, 2, 3]])
    with pytest.warns(UserWarning, match="to_undirected"):
        topk_similarity(one_way, 2)  # while Numba compiles, Python forgets which warnings it showed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            topk_similarity(one_way, 2)
    assert [str(w.filename) for w in caught] == [__file__]
    pair = torch.tensor([[0], [1]])
    for function, *arguments in (
        (estimate_topk, 2),
        (similarity_graph, 2),
        (match_similar, 2),
        (recommend, 2),
        (similarity_of_pairs, pair),
        (SimilarityIndex,),
    ):
        with pytest.warns(UserWarning, match="to_undirected") as warned:
            function(one_way, *arguments)  # type: ignore[operator]
        assert [str(w.filename) for w in warned] == [__file__]
    with_loop = torch.tensor([[0, 1, 0], [0, 2, 3]])
    with pytest.warns(UserWarning, match="to_undirected"):
        topk_similarity(with_loop, 2)
    data = Data(edge_index=one_way, num_nodes=4)
    for read in (
        lambda: SimilarityIndex(one_way),
        lambda: StructuralSimilarity(2)(data),
        lambda: AddSimilarityEdges(2)(data),
        lambda: SimPool(2, k=2)(torch.rand(4, 3), one_way),
    ):
        with pytest.warns(UserWarning, match="to_undirected"):
            read()


def test_other_edges_give_no_warning() -> None:
    loops = torch.tensor([[0, 1], [0, 1]])
    empty = torch.empty(2, 0, dtype=torch.long)
    directed = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 3]])  # one edge has its mirror image
    large = torch.randint(0, 5000, (2, 20_000))
    large = torch.cat([large, large.flip(0)], dim=1)
    ring = torch.stack([torch.arange(100), torch.arange(1, 101) % 100])
    ring = torch.cat([ring, ring.flip(0)], dim=1)
    descending = ring[:, ring[0].argsort(descending=True)]  # bisection finds none of the sample
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for edge_index in (STAR, loops, empty, directed, large, descending):
            topk_similarity(edge_index, 2)
        for flavor in FLAVORS:
            graph = draw(flavor, 0)
            if graph.num_nodes and torch.equal(graph.adj(), graph.adj().T):
                topk_similarity(graph.edge_index, 2, num_nodes=graph.num_nodes)
        topk_similarity(torch.tensor([[0, 0], [1, 2]]), 2, num_nodes=(2, 3))


@pytest.mark.parametrize("can_use_triton", [False, True])
def test_the_backend_of_auto(can_use_triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "can_use_triton", lambda: can_use_triton)
    names = [backends.backend_name(TopKSettings(), torch.device(d)) for d in ("cpu", "cuda", "mps")]
    assert names == ["numba", "triton" if can_use_triton else "torch", "torch"]
