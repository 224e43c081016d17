"""Positional encodings as node features."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import get_laplacian, to_dense_adj

from harness.data.batches import Batches
from harness.data.encodings import SIZE, FlippedBatches, laplacian_encodings
from harness.data.load import WITH_ENCODINGS, load
from harness.data.structural import ENCODINGS, add_structural_features, training_batches
from harness.errors import BenchmarkError
from harness.study.run import Run
from helpers.tu_files import NUM_NODES, write_tu
from torch_geometric_simpool import StructuralSimilarity


def path_graph(num_nodes: int) -> Data:
    left = torch.arange(num_nodes - 1)
    edge_index = torch.stack([torch.cat([left, left + 1]), torch.cat([left + 1, left])])
    return Data(x=torch.ones(num_nodes, 1), edge_index=edge_index, num_nodes=num_nodes)


def add_laplacian_encodings(graphs: list[Data], seed: int) -> None:
    for graph, encodings in zip(graphs, laplacian_encodings(graphs, seed)):
        graph.x = torch.cat([encodings, graph.x], dim=1)


def test_eigenvectors_of_the_normalized_laplacian() -> None:
    graph = path_graph(20)
    index, weight = get_laplacian(graph.edge_index, normalization="sym", num_nodes=20)
    laplacian = to_dense_adj(index, edge_attr=weight)[0].double().numpy()
    add_laplacian_encodings([graph], seed=0)
    assert graph.x.shape == (20, SIZE + 1)
    assert graph.x[:, SIZE].eq(1).all()
    found = graph.x[:, :SIZE].double().numpy()
    smallest = np.linalg.eigvalsh(laplacian)[1 : SIZE + 1]
    np.testing.assert_allclose(laplacian @ found, found * smallest, atol=2e-6)
    np.testing.assert_allclose(found.T @ found, 20 * np.eye(SIZE), atol=2e-5)


def test_signs_are_those_of_the_seed_and_no_other_draw_changes() -> None:
    graphs = [[path_graph(30) for _ in range(20)] for _ in range(3)]
    torch.manual_seed(5)
    for some, seed in zip(graphs, (0, 0, 1)):
        add_laplacian_encodings(some, seed)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    signs = [torch.stack([g.x[0, :SIZE].sign() for g in some]) for some in graphs]
    assert torch.equal(signs[0], signs[1])
    assert not torch.equal(signs[0], signs[2])
    # Every eigenvector occurs with both signs.
    assert signs[0].sum(dim=0).abs().lt(20).all()


@pytest.mark.parametrize("num_nodes", [1, 2, 5, SIZE, SIZE + 1])
def test_small_graphs(num_nodes: int) -> None:
    graph = path_graph(num_nodes)
    add_laplacian_encodings([graph], seed=0)
    there = min(SIZE, num_nodes - 1)
    assert graph.x.shape == (num_nodes, SIZE + 1)
    assert graph.x[:, there:SIZE].eq(0).all()
    torch.testing.assert_close(graph.x[:, :there].square().mean(dim=0), torch.ones(there))


def test_large_graphs_do_not_depend_on_a_start() -> None:
    """SciPy's sparse solver, which PyG takes from 100 nodes, draws where it starts."""
    graphs = [path_graph(150) for _ in range(2)]
    for graph in graphs:
        add_laplacian_encodings([graph], seed=0)
    assert torch.equal(graphs[0].x, graphs[1].x)


def test_data_sets_with_encodings(tmp_path: Path) -> None:
    write_tu(tmp_path)
    plain, encoded = (
        load("TINY", str(tmp_path), False, kind, 0) for kind in ("labels", WITH_ENCODINGS)
    )
    assert (encoded.node_features, encoded.num_attributes) == (WITH_ENCODINGS, 0)
    for one, other in zip(plain.graphs, encoded.graphs):
        assert torch.equal(other.x[:, SIZE:], one.x)
        assert other.x[:, : NUM_NODES - 1].ne(0).any()
    # Another CPU may have other eigenvectors, and is not taken for other data.
    assert encoded.describe()["checksum"] == plain.describe()["checksum"]
    encoded.graphs[0].x[0, SIZE] += 1
    assert encoded.describe()["checksum"] != plain.describe()["checksum"]


def test_signs_are_drawn_whenever_a_training_graph_is_read() -> None:
    graphs = [path_graph(n) for n in (12, 20, 15)]
    add_laplacian_encodings(graphs, seed=0)
    for graph in graphs:
        graph.y = torch.tensor([graph.num_nodes])
    flipped = partial(FlippedBatches, "x")
    batches, again, plain = (
        kind(graphs, 2, torch.device("cpu"), torch.Generator().manual_seed(3))
        for kind in (flipped, flipped, Batches)
    )
    seen = set()
    for _ in range(40):
        for batch, same, before in zip(batches, again, plain):
            # The order of the graphs is that of plain batches, and a seed gives the same signs.
            assert torch.equal(batch.y, before.y)
            assert torch.equal(batch.x, same.x)
            assert torch.equal(batch.x[:, SIZE:], before.x[:, SIZE:])
            signs = batch.x[:, :SIZE].sign() * before.x[:, :SIZE].sign()
            torch.testing.assert_close(batch.x[:, :SIZE], before.x[:, :SIZE] * signs)
            for i in range(batch.num_graphs):
                one = signs[batch.batch == i]
                # One sign for all nodes; where a value is zero there is none.
                assert ((one == one[0]) | (one == 0) | (one[0] == 0)).all()
                seen.add(tuple(one[0].tolist()))
    # Of 256 combinations.
    assert len(seen) > 80
    assert len(batches.generators) == 2


RENUMBERED = Run("motifs", "motifs", order="random-epoch", node_features=WITH_ENCODINGS)


def test_signs_and_numbers_are_drawn_together() -> None:
    graphs = [path_graph(n) for n in (12, 20, 15)]
    add_laplacian_encodings(graphs, seed=0)
    transform = StructuralSimilarity(4, alpha=0.8)
    add_structural_features(graphs, transform)
    for graph in graphs:
        graph.y = torch.tensor([graph.num_nodes])
    batches, again, plain = (
        kind(graphs, 2, torch.device("cpu"), torch.Generator().manual_seed(3))
        for kind in (*[training_batches(RENUMBERED, transform)] * 2, Batches)
    )
    assert len(batches.generators) == 2
    signs, features = [], []
    for _ in range(4):
        for batch, same, before in zip(batches, again, plain):
            assert torch.equal(batch.y, before.y)
            assert torch.equal(batch.x, same.x)
            assert batch.sim is not None
            assert same.sim is not None
            assert torch.equal(batch.sim, same.sim)
            assert torch.equal(batch.x.abs(), before.x.abs())
            longest = (before.y == 20)[before.batch]
            if longest.any():
                signs.append((batch.x * before.x)[longest][0, :SIZE].sign())
                features.append(batch.sim[longest])
    assert len({tuple(drawn.tolist()) for drawn in signs}) > 1
    assert len({tuple(drawn.flatten().tolist()) for drawn in features}) == 4
    # Other numbers and no other similarities: as many places are taken.
    assert {int(drawn.ne(0).sum()) for drawn in features} == {int(graphs[1].sim.ne(0).sum())}


@pytest.mark.parametrize("changes", [{"features": "node"}, {"features": ENCODINGS}, {"gru": True}])
def test_numbers_that_nothing_reads(changes: dict[str, Any]) -> None:
    run = replace(RENUMBERED, **changes)
    named = f"features={run.features!r}, gru={run.gru}$"
    with pytest.raises(
        BenchmarkError, match=f"^order: 'random-epoch' .* method='simpool', {named}"
    ):
        training_batches(run, None)


def test_checkpoints_hold_the_signs() -> None:
    """A training that goes on draws the signs that it would have drawn."""
    graphs = [path_graph(12) for _ in range(4)]
    add_laplacian_encodings(graphs, seed=0)
    for graph in graphs:
        graph.y = torch.tensor([0])

    def make() -> Batches:
        return FlippedBatches("x", graphs, 2, torch.device("cpu"), torch.Generator())

    first, second = make(), make()
    list(first)
    for to, of in zip(second.generators, first.generators):
        to.set_state(of.get_state())
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, second))
