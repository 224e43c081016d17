"""The experiments declare the tables of the paper."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from harness.data.communities import generate_communities
from harness.data.islands import generate_islands
from harness.data.motifs import generate_motifs
from harness.methods.presets import BENCHMARK_PRESETS
from harness.methods.registry import METHODS, PEERS
from harness.report.plots import PLOTS
from harness.study.bases import ENZYMES, ORDERS, SINGLE
from harness.study.declarations import Nested
from harness.study.experiments import EXPERIMENTS, LOCALITY, NESTED
from harness.study.queue import queue
from harness.study.run import Run
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms.node_order import node_order


def test_ten_folds_of_all_methods() -> None:
    for dataset, k in (("ENZYMES", 15), ("DD", 32)):
        table = EXPERIMENTS[f"{dataset}-10fold"]
        assert {row.label for row in table.rows} == set(METHODS)
        for row in table.rows:
            assert [run.fold for run in row.runs] == list(range(10))
            assert {run.method for run in row.runs} == {row.label}
        ours = table.rows[0].runs[0]
        assert (ours.method, ours.k, ours.alpha, ours.p) == ("simpool", k, 0.8, 1)


def test_settings_are_the_presets() -> None:
    run = replace(ENZYMES, preset="enzymes").filled()
    preset = BENCHMARK_PRESETS["enzymes"]
    for name in ("k", "p", "lam", "alpha", "entropy_scaler", "cluster_scaler", "epochs", "lr"):
        assert getattr(run, name) == getattr(preset, name)
    # Settings that are given are kept.
    assert replace(ENZYMES, k=3, cluster_scaler=0.0).filled().cluster_scaler == 0


def test_peers_share_runs_whatever_simpool_reads() -> None:
    one = replace(ENZYMES, method="diffpool", k=3, features="node").filled()
    assert one == replace(ENZYMES, method="diffpool", order="random").filled()
    assert one.width == 1
    assert one.epochs == 100


def test_tables_of_the_paper() -> None:
    labels = [row.label for row in EXPERIMENTS["ENZYMES-k"].rows]
    assert labels == ["k = 3", "k = 6", "k = 9", "k = 12", "k = 15", "k = 18", "GRU over all of C"]
    assert [row.runs[0].p for row in EXPERIMENTS["ENZYMES-p"].rows] == [1, 2, 3]
    scalers = [row.runs[0].cluster_scaler for row in EXPERIMENTS["ENZYMES-scaler"].rows]
    assert scalers == [0, 0.5, 1, 1.5, 2]
    orders = [row.runs[0].order for row in EXPERIMENTS["ENZYMES-order"].rows]
    assert orders == [*ORDERS, "given", "fiedler"]


@pytest.mark.parametrize(
    ("name", "generate"),
    [
        ("motifs-order", generate_motifs),
        ("communities", generate_communities),
        ("islands", generate_islands),
        ("ENZYMES-order", generate_communities),
    ],
)
def test_position_alone(name: str, generate: Callable[[int], list[Data]]) -> None:
    """The features tell the position of a node, or of one with the same neighbors: nothing else."""
    runs = [row.runs[0] for row in EXPERIMENTS[name].rows if "position alone" in row.label]
    assert runs
    for run in runs:
        order = None if run.order == "given" else run.order
        made = StructuralSimilarity(k=run.k, p=run.p, lam=run.lam, alpha=run.alpha, order=order)
        for graph in generate(5):
            n = graph.num_nodes
            sim = made(graph.clone()).sim
            assert sim.shape == (n, 1)
            place = node_order(graph.edge_index, order, n) if order else torch.arange(n)
            adj = to_dense_adj(graph.edge_index, max_num_nodes=n)[0]
            alike = (adj[:, None] == adj[None]).all(dim=-1)
            first = place.expand(n, n).masked_fill(~alike, n).amin(dim=1)
            torch.testing.assert_close(sim[:, 0], (first + 1) / (n + 1))
        # One row of the table has the same settings otherwise.
        others = [row.runs[0] for row in EXPERIMENTS[name].rows if row.runs[0] != run]
        assert sum(replace(other, k=run.k, alpha=run.alpha) == run for other in others) == 1


def test_names_of_files_do_not_collide_and_do_not_change() -> None:
    early, late = queue(EXPERIMENTS)
    runs = early + late
    assert len({run.key for run in runs}) == len(runs)
    # The name of a stored run.
    assert ENZYMES.filled().key == "ENZYMES-paper-simpool-fold0-1ff75ad7ef"


def test_queue_holds_every_run_once() -> None:
    early, late = queue(EXPERIMENTS)
    runs = early + late
    assert len(set(runs)) == len(runs)
    assert set(runs) == {run for table in EXPERIMENTS.values() for run in table.runs}
    for table in LOCALITY.values():
        assert set(table.runs) <= set(runs)


def test_queue_stopped_early_has_something_of_everything() -> None:
    early, late = queue(["ENZYMES-10fold", "ENZYMES-features", "ENZYMES-p"])
    assert early[:10] == list(EXPERIMENTS["ENZYMES-10fold"].rows[0].runs)
    assert len(early) == 10 + len(PEERS) * len(SINGLE) + 5
    assert [run.fold for run in late] == sorted(run.fold for run in late)
    for name in ("ENZYMES-features", "ENZYMES-p"):
        assert all(row.runs[0] in early for row in EXPERIMENTS[name].rows)


@pytest.mark.parametrize("nested", NESTED.values(), ids=lambda nested: nested.name)
def test_nested(nested: Nested) -> None:
    assert not nested.base.cleaned  # the published splits are of all graphs
    for method in nested.methods:
        selection = nested.selection(method, 4, "seeded")
        if method == "simpool":
            assert list(selection) == list(nested.grid)
        for name, run in selection.items():
            assert (run.protocol, run.config, run.fold) == ("nested-selection", name, 4)
            assert all(getattr(run, key) == value for key, value in nested.grid[name].items())
        final = nested.final(selection["lr 3e-4"])
        assert len({run.key for run in final}) == 3
        assert {run.config for run in final} == {"lr 3e-4"}
        assert {run.protocol for run in final} == {"nested"}


@pytest.mark.parametrize("dataset", ["ENZYMES", "DD"])
def test_a_larger_grid(dataset: str) -> None:
    """It has the smaller one, whose finished runs it shares, and at most eight choices more."""
    small, large = NESTED[f"{dataset}-nested"], NESTED[f"{dataset}-nested-larger-grid"]
    assert (large.methods, large.published) == (small.methods, small.published)
    for method in large.methods:
        before, after = (n.selection(method, 3, "seeded") for n in (small, large))
        assert before.items() <= after.items()
        assert len(after) - len(before) <= 8
        for run in set(after.values()) - set(before.values()):
            # One change, beside the learning rate, of the smaller grid's runs.
            one = replace(before[f"lr {run.lr:.0e}".replace("e-0", "e-")], config=run.config)
            changed = {n for n, v in run.settings.items() if v != one.settings[n]}
            assert changed in (
                {"dropout", "weight_decay"},
                {"entropy_warmup"},
                {"readout"},
                {"order"},
                {"width"},
            )
    assert large.votes > small.votes


def test_a_new_setting_leaves_old_names_alone() -> None:
    """Defaults are no part of the name."""
    assert Run("A", "enzymes").key == Run("A", "enzymes", folds=10, order="given").key
    assert Run("A", "enzymes").key != Run("A", "enzymes", order="rcm").key


def test_a_peer_has_no_settings_of_simpool() -> None:
    run = replace(ENZYMES, method="diffpool").filled()
    assert {run.k, run.p, run.lam, run.alpha, run.entropy_scaler, run.cluster_scaler} == {None}


@pytest.mark.parametrize("method", METHODS)
def test_settings_are_read_back(method: str) -> None:
    """As they are stored now, and as they were when an unset number was 0 or -1."""
    run = replace(ENZYMES, method=method).filled()
    old: dict[str, float] = dict.fromkeys(("k", "p"), 0)
    old |= dict.fromkeys(("lam", "alpha", "entropy_scaler", "cluster_scaler"), -1.0)
    settings = {n: old.get(n) if value is None else value for n, value in run.settings.items()}
    assert Run.from_settings(run.settings) == Run.from_settings(settings) == run


def test_plots_are_known() -> None:
    tables = [*EXPERIMENTS.values(), *LOCALITY.values()]
    assert {table.plot for table in tables} == {None, *PLOTS}
