"""Makes the missing runs of the study, in several processes."""

import argparse
import multiprocessing
import os
import signal
import sys

import torch

from harness.command import exit_status
from harness.store.allocator import KEEP_MEMORY
from harness.study.store import Store
from harness.study.wanted import wanted
from harness.study.work import work


def run_workers(options: argparse.Namespace, store: Store) -> int:
    """Makes the missing runs in several processes; returns the exit status."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(options,)) for _ in range(options.workers)]
    # A process that is asked to stop must stop its workers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Without these, a step of a GRU takes twice as long. They are read when a process starts.
    ours = dict(os.environ)
    os.environ.update({**KEEP_MEMORY, **ours})
    started = []
    try:
        for worker in workers:
            worker.start()
            started.append(worker)
        for worker in workers:
            worker.join()
    finally:
        for name in KEEP_MEMORY.keys() - ours.keys():
            os.environ.pop(name, None)
        for worker in started:
            worker.terminate()
    codes = [worker.exitcode or 0 for worker in workers]
    for code in codes:
        if code < 0:
            print(f"study.py: a worker was killed by signal {-code}", file=sys.stderr)
    # Another process may have made the runs of a worker that failed.
    if any(map(store.missing, wanted(options, store))):
        return max(*codes, 1)
    return 0


def _worker(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    sys.exit(exit_status("study.py", lambda: work(options, Store(options.out, quiet=True))))
