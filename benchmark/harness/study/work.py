"""Makes the missing runs of the study, in one process."""

import argparse
import multiprocessing
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from harness.errors import BenchmarkError
from harness.store.locks import locked_data
from harness.study.perform import load_data, perform
from harness.study.run import Run
from harness.study.store import Store
from harness.study.wanted import wanted

#: How long to wait for runs of other processes before looking again, in seconds.
PAUSE = 5.0


@dataclass
class Failures:
    """The runs that have failed, and data sets (name, cleaned, node features) of no use."""

    runs: set[Run] = field(default_factory=set)
    data: set[tuple[str, bool, Optional[str]]] = field(default_factory=set)


def work(options: argparse.Namespace, store: Store) -> None:
    """Makes the missing runs that no other process has locked, until none is missing.

    A run that fails is reported and not tried again by this process. It is an error if no
    process has made it at the end.
    """
    parent = multiprocessing.parent_process()
    failed = Failures()
    waiting = False
    while True:
        taken = 0
        for run in wanted(options, store):
            if run in failed.runs or not store.missing(run):
                continue
            if parent is not None and not parent.is_alive():
                return  # it was killed, and could not stop its workers
            with store.claimed(run) as ours:
                if not ours:
                    taken += 1
                    continue
                # Again: another process may have finished it in the meantime.
                if not store.missing(run):
                    continue
                result = _attempt(run, options, store, failed)
                if result is not None:
                    store.save(run, result)
                    print(describe_result(run, result), flush=True)
            break  # start over: final runs may be known now
        else:
            if taken == 0:
                break
            # Other processes are making the rest. If one is killed, its runs are left to us.
            if not waiting:
                print(f"waiting for {taken} runs of another process", flush=True)
            waiting = True
            time.sleep(PAUSE)
    left = sum(store.missing(run) for run in failed.runs)
    if left > 0:
        raise BenchmarkError(f"{left} runs failed, see above")


def _attempt(
    run: Run, options: argparse.Namespace, store: Store, failed: Failures
) -> Optional[dict[str, Any]]:
    """Makes a run. Returns `None`, and reports the reason, if it fails."""
    data = (run.dataset, run.cleaned, run.node_features)
    if data in failed.data:  # reported with another run
        failed.runs.add(run)
        return None
    try:
        with locked_data(Path(options.root)):
            graphs = load_data(run, options.root)
        check_same_data(run, graphs.describe()["checksum"], store)
    except BenchmarkError as error:
        failed.data.add(data)
        reason = str(error)
    else:
        try:
            path = store.checkpoint(run)
            return perform(run, options.root, options.device, options.splits, path)
        except BenchmarkError as error:
            reason = str(error)
        except Exception:
            # Any error, such as a lack of GPU memory: other runs may still succeed.
            reason = traceback.format_exc().rstrip()
    failed.runs.add(run)
    print(f"failed: {run.key}: {reason}", file=sys.stderr, flush=True)
    return None


def check_same_data(run: Run, checksum: str, store: Store) -> None:
    """Raises if runs in the folder were made with other data of the same name."""
    for other, there in store.known.items():
        alike = all(
            getattr(other, name) == getattr(run, name)
            for name in ("dataset", "cleaned", "node_features", "seed")
        )
        if alike and there["data"].get("checksum", checksum) != checksum:
            raise BenchmarkError(
                f"--out {store.folder}: {store.path(other).name} is of other data than "
                f"{run.dataset} in --root: checksum {there['data']['checksum']} there, {checksum} "
                "now. One table cannot hold both: choose another --out"
            )


def describe_result(run: Run, result: dict[str, Any]) -> str:
    """One line about a finished run."""
    if "error" in result:
        return f"{run.key}: {result['error']}"
    return (
        f"{run.key}: best validation accuracy {result['best_val_accuracy']:.4f} in epoch "
        f"{result['best_epoch']} of {run.epochs}; {result['num_parameters']:,} parameters, "
        f"{result['seconds']:.0f} s"
    )
