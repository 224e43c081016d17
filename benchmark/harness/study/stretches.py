"""How local clusters can be: every graph is cut into stretches of an order of its nodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from harness.data.structural import edges_only
from harness.errors import BenchmarkError
from harness.methods.presets import BENCHMARK_PRESETS
from harness.store.files import read_json
from harness.study.bases import SINGLE
from harness.study.perform import load_data, split
from harness.study.run import Run
from torch_geometric_simpool.analysis.locality import Locality, locality
from torch_geometric_simpool.transforms.node_order import node_order

#: The order of the data set, which for proteins is that of the chain, and one by structure.
ORDERS = ("given", "fiedler")


def read_stretches(path: Path) -> dict[str, Any]:
    """The stored measures by table; nothing if there is no file."""
    if not path.exists():
        return {}
    try:
        tables = read_json(path)["tables"]
        for by_order in tables.values():
            for found in by_order.values():
                numbers = [found["num_clusters"], *(found["locality"][n] for n in Locality._fields)]
                if not all(isinstance(number, (int, float)) for number in numbers):
                    raise TypeError("numbers")
                if not isinstance(found["splits"], list):
                    raise TypeError("splits")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of stretches.py: make it again, or move it away"
        ) from error
    return tables


def measure(runs: Sequence[Run], root: str) -> dict[str, Any]:
    """By order: the mean over the validation graphs of each run, then over the runs."""
    num_clusters = BENCHMARK_PRESETS[runs[0].preset].architecture.clusters[0]
    found = {}
    for order in ORDERS:
        of_runs = []
        for run in runs:
            data = load_data(run, root)
            graphs = [data.graphs[i] for i in split(run, data)["validation"]]
            of_runs.append(of_graphs(graphs, order, num_clusters))
        mean = {name: float(np.mean([r[name] for r in of_runs])) for name in of_runs[0]}
        found[order] = {"splits": list(SINGLE), "num_clusters": num_clusters, "locality": mean}
    return found


def of_graphs(graphs: list[Data], order: str, num_clusters: int) -> dict[str, float]:
    """The mean locality, if each stretch of equal length is a cluster."""
    batch = Batch.from_data_list([edges_only(graph) for graph in graphs])
    if order == "given":
        place = torch.arange(batch.num_nodes) - batch.ptr[batch.batch]
    else:
        place = node_order(batch.edge_index, order, batch=batch.batch)
    size = torch.bincount(batch.batch)[batch.batch]
    cluster = num_clusters * place // size
    return locality(batch.edge_index, cluster, num_clusters, batch.batch).mean()
