"""Compiles the CPU kernels beforehand, for example when a container is built.

Usage: python -m torch_geometric_simpool.warmup

Without it the first call of each process that finds no machine code in the cache compiles what it
needs. Runs the top k and training steps on small graphs, with values of single and double
precision. The cache is in a folder of the user if it can be written, else in folders `__pycache__`
of the package; the environment variable NUMBA_CACHE_DIR names another. Run it as the user, on the
kind of processor, and with the value of NUMBA_CACHE_DIR, of the programs that follow; the folder
must remain writable for them. Exit status: 0, or 1 if there is no folder for a cache.
"""

import argparse
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from torch_geometric_simpool.models.sim_pool_net import SimPoolNet
from torch_geometric_simpool.topk.numba import compiling
from torch_geometric_simpool.topk.topk_similarity import topk_similarity


def compile_all() -> None:
    """Runs what is commonly used, once for each type of its arguments.

    Features of nodes have no kernel in double precision but the sum of messages. Restores the
    random numbers and the default type.
    """
    default = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        try:
            for dtype in (torch.float32, torch.float64):
                torch.set_default_dtype(dtype)
                for edge_index in _graphs():
                    _topk(edge_index)
                _train(next(_graphs()))
        finally:
            torch.set_default_dtype(default)


def _graphs() -> Iterator[Tensor]:
    """Undirected and directed edges; node 0 has many neighbors, which is a case of its own."""
    num_nodes = 300
    ring = torch.arange(num_nodes)
    ends = torch.stack([torch.cat([ring, ring]), torch.cat([(ring + 1) % num_nodes, 0 * ring])])
    ends = torch.unique(ends[:, ends[0] != ends[1]], dim=1)
    yield torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    yield ends


def _topk(edge_index: Tensor) -> None:
    """All nodes, a few, candidates; an approximation, parallel edges, weights and a power."""
    few = torch.tensor([50, 150])
    topk_similarity(edge_index, 4)
    topk_similarity(edge_index, 4, nodes=few)
    topk_similarity(edge_index, 4, candidates=few, max_degree=50)
    topk_similarity(edge_index.repeat(1, 2), 4)
    weight = torch.rand(edge_index.size(1))
    topk_similarity(edge_index, 4, weight)
    topk_similarity(edge_index, 4, weight, p=2)


def _train(edge_index: Tensor) -> None:
    """A training step on so many edges that the engine is used."""
    num_graphs, num_nodes = 8, int(edge_index.max()) + 1
    batch = torch.arange(num_graphs).repeat_interleave(num_nodes)
    shift = num_nodes * torch.arange(num_graphs).repeat_interleave(edge_index.size(1))
    edge_index = edge_index.repeat(1, num_graphs) + shift
    edge_index = edge_index[:, torch.randperm(edge_index.size(1))]  # as they may come
    net = SimPoolNet.from_preset("enzymes", 3, 2)
    out = net(torch.randn(batch.numel(), 3), edge_index, batch)
    out.loss(torch.zeros(num_graphs, dtype=torch.long)).backward()


def main() -> int:
    """Compiles, prints where the cache is and the seconds; returns the exit status."""
    summary, _, rest = (__doc__ or "").partition("\n")
    argparse.ArgumentParser(
        prog="python -m torch_geometric_simpool.warmup",
        description=summary,
        epilog=rest.split("\n\n", 2)[-1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    start = time.perf_counter()
    compile_all()
    print(f"The CPU kernels are compiled; this took {time.perf_counter() - start:.1f} s.")
    folders = sorted(map(str, compiling.folders))
    if not folders:
        print(
            "They cannot be cached, as no folder for it can be written: set NUMBA_CACHE_DIR to one",
            file=sys.stderr,
        )
        return 1
    print("They are cached in", *folders, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
