"""How local clusters could be: every graph cut into stretches of an order of its nodes.

Usage: python benchmark/stretches.py --root data

Writes benchmark/results/stretches.json, which the report shows beside the assignments of
SimPool and DiffPool: as many clusters, of equal size, on the same graphs.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from declarations import Run
from errors import BenchmarkError
from experiments import LOCALITY, SINGLE
from options import BENCHMARK_PRESETS
from results import surroundings, write_whole
from runs import load_data, split
from torch_geometric_simpool.analysis.locality import Locality, locality
from torch_geometric_simpool.transforms.node_order import node_order

OUT = Path(__file__).resolve().parent / "results" / "stretches.json"
#: The order of the data set, for proteins along the chain, and one by structure.
ORDERS = ("given", "fiedler")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Measures, and writes the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="stretches.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", default="data", help="folder of the TU data sets")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="+", choices=list(LOCALITY), default=list(LOCALITY))
    options = parser.parse_args(arguments)
    try:
        # Read first: measuring takes minutes.
        there = read_stretches(options.out)
        tables = {name: measure(LOCALITY[name].rows[0].runs, options.root) for name in options.only}
        # Tables that are not asked for stay.
        found = {"tables": {**there, **tables}, **surroundings(torch.device("cpu"))}
        text = json.dumps(found, indent=1) + "\n"
        write_whole(options.out, lambda path: path.write_text(text, encoding="utf-8"))
    except (BenchmarkError, OSError) as error:
        print(f"stretches.py: error: {error}", file=sys.stderr)
        return 2
    return 0


def read_stretches(path: Path) -> dict[str, Any]:
    """What has been measured, by table; nothing where there is no file yet."""
    if not path.exists():
        return {}
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
        for by_order in tables.values():
            for found in by_order.values():
                numbers = [found["num_clusters"], *(found["locality"][n] for n in Locality._fields)]
                if not all(isinstance(number, (int, float)) for number in numbers):
                    raise TypeError("numbers")
                if not isinstance(found["splits"], list):
                    raise TypeError("splits")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of stretches.py: make it anew, or move it away"
        ) from error
    return tables


def measure(runs: Sequence[Run], root: str) -> dict[str, Any]:
    """By order: the mean over the graphs that each run validates on, then over the runs."""
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
    """The locality of stretches of equal length, each a cluster."""
    plain = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    batch = Batch.from_data_list(plain)
    if order == "given":
        place = torch.arange(batch.num_nodes) - batch.ptr[batch.batch]
    else:
        place = node_order(batch.edge_index, order, batch=batch.batch)
    size = torch.bincount(batch.batch)[batch.batch]
    cluster = num_clusters * place // size
    return locality(batch.edge_index, cluster, num_clusters, batch.batch).mean()


if __name__ == "__main__":
    sys.exit(main())
