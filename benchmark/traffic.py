"""The bytes that the Triton backend of the top k reads and writes, from its plan: needs no GPU.

They stand beside a floor: the bytes of each list that a row names, once, and of the output, once.
`floor` counts the lists of all features, as the plain row-wise algorithm reads them, and
`floor_without_hubs` leaves out the lists of hubs, which the backend skips.

    python benchmark/traffic.py --out benchmark/results/traffic.json
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Optional

import torch

from harness.command import exit_status
from harness.options import integer
from harness.speed.topk_cases import make_problem
from harness.store.files import write_json
from torch_geometric_simpool.functional import topk_triton
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.settings import DescriptionSettings, Graph


def main(arguments: Optional[list[str]] = None) -> int:
    """Counts; returns the exit status."""
    options = parse(arguments)
    return exit_status("traffic.py", lambda: start(options))


def start(options: argparse.Namespace) -> None:
    """Counts the bytes for each graph, and writes them."""
    counted = [entry for name in options.graphs for entry in count(name, options)]
    write_json(options.out, counted)
    for entry in counted:
        print(
            f"{entry['graph']}, k = {entry['k']}: {entry['bytes'] / 1e9:.2f} GB, "
            f"{entry['bytes'] / entry['floor']:.2f} times the floor, "
            f"{entry['bytes'] / entry['floor_without_hubs']:.2f} times that without hubs"
        )


def count(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The bytes of one graph, for each `k`."""
    problem = make_problem(name, options.root)
    graph = Graph(problem.edge_index, None, problem.num_nodes, problem.num_targets)
    settings = DescriptionSettings(1, 0.0, "cosine")
    prepared = topk_triton.prepare(graph, settings, Budget(None, force=True))
    entries = []
    for k in options.k:
        kernels, floor, without = topk_triton.traffic(prepared, problem.nodes, k, torch.float32)
        entries.append(
            {
                "graph": name,
                "k": k,
                "kernels": [dict(zip(("kernel", "read", "written"), one)) for one in kernels],
                "bytes": sum(read + written for _, read, written in kernels),
                "floor": floor,
                "floor_without_hubs": without,
            }
        )
    return entries


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        default=["uniform-1000000-10", "power_law-1000000-10"],
        help="as of benchmark/topk.py",
    )
    parser.add_argument("--k", nargs="+", type=integer(1), default=[16, 32])
    parser.add_argument("--root", help="folder of the TU data sets")
    parser.add_argument("--out", type=Path, default=Path("benchmark/results/traffic.json"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
