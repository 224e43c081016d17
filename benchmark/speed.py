"""Measures time and memory.

python benchmark/speed.py topk       the top k beside sparse_dot_topn, similaripy and implicit
python benchmark/speed.py pooling    sim_pool on D&D beside PyG's and tgp's DiffPool
python benchmark/speed.py training   epochs of ENZYMES and D&D
python benchmark/speed.py recommend  Recall@20, NDCG@20 and costs of `recommend` and other methods

Methods take turns. The output has the median, fastest and slowest seconds of a call, bytes of
memory, and the ratio of the seconds to the seconds of the first method. It is printed and written
to --out. On a GPU (--device cuda), `topk` compares the backends of this package and
`torch.sparse.mm`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import pandas as pd
import torch

from harness.command import device, exit_status, number
from harness.machine import provenance
from harness.speed import pooling, recommendation, topk

PARTS = {
    "topk": topk.measure,
    "pooling": pooling.measure_pooling,
    "training": pooling.measure_training,
    "recommend": recommendation.measure,
}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Measures; returns the exit status."""
    return exit_status("speed.py", lambda: measure(parse(arguments)))


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="speed.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("part", choices=PARTS)
    add("--root", help="folder of TU data sets, or of NAME_train.npz and NAME_test.npz for\n"
        "`recommend`; without it, data are generated")  # fmt: skip
    add("--cases", nargs="+", choices=list(topk.CASES), default=topk.DEFAULT, metavar="CASE",
        help=f"graphs of `topk`: {', '.join(topk.CASES)}")  # fmt: skip
    add("--threads", nargs="+", type=number(int, 1), default=[1, 2], help="default: 1 2")
    add("--seconds", type=number(float, 0), default=10.0, help="for each case, at least 3 rounds")
    add("--graphs", type=number(int, 1), help="number of graphs of `pooling` and `training`")
    add("--device", type=device, default="cpu", help="cpu or cuda (default: cpu)")
    add("--out", type=Path, help="a JSON file of the measurements")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> None:
    """Measures a part with each number of threads, and prints ratios to the first method."""
    torch.set_flush_denormal(True)  # trainings flush denormals too
    tables = []
    for threads in options.threads if options.device == "cpu" else options.threads[:1]:
        torch.set_num_threads(threads)
        for title, table in PARTS[options.part](options):
            ratio = table.seconds / table.seconds.iloc[0]
            text = table.assign(ratio=ratio).to_string(float_format="{:.4g}".format)
            print(f"{title}, {threads} threads\n{text}\n", flush=True)
            tables.append(table.reset_index().assign(case=title, threads=threads))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        rows = json.loads(pd.concat(tables).to_json(orient="records"))
        result = {"part": options.part, "rows": rows, **provenance(torch.device(options.device))}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
