"""Data sets of the TU collection: raw files, their download, and PyG's processed form."""

import pickle
import re
import shutil
import tempfile
import warnings
from pathlib import Path

from torch_geometric.datasets import TUDataset

from harness.data.motifs import NAME as GENERATED
from harness.data.tu_checks import REQUIRED, check_raw, read_part
from harness.errors import BenchmarkError, first_line


def load_tu(name: str, root: Path, cleaned: bool) -> TUDataset:
    """Loads a data set from its raw files in `root`; downloads them if there are none."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is None:
        raise BenchmarkError(f"--dataset must be the name of a TU data set, got {name!r}")
    suffix = "_cleaned" if cleaned else ""
    raw = root / name / f"raw{suffix}"
    processed = root / name / f"processed{suffix}"
    if not any((raw / f"{name}_{part}.txt").exists() for part in REQUIRED):
        _download(name, root, raw, cleaned)
    there = (processed / "data.pt").exists()
    num_graphs = check_raw(raw, name) if not there else len(read_part(raw, name, "graph_labels"))
    try:
        with warnings.catch_warnings():
            # PyG only warns, and continues with data that something else has changed.
            warnings.filterwarnings("error", message="The `pre_(transform|filter)` argument")
            dataset = TUDataset(
                str(root), name, use_node_attr=True, use_edge_attr=True, cleaned=cleaned
            )
    except UserWarning as error:
        raise BenchmarkError(
            f"{processed / 'data.pt'} was made with a `pre_transform` or `pre_filter` of its own: "
            f"choose another --root, or delete {processed}, which is made again from the raw files"
        ) from error
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as error:
        if not there:
            shutil.rmtree(processed, ignore_errors=True)
            raise BenchmarkError(
                f"the raw files in {raw} cannot be read ({first_line(error)}): delete them and "
                "unpack, or download, the data set again"
            ) from error
        raise BenchmarkError(
            f"{processed / 'data.pt'} cannot be read ({first_line(error)}): delete it, "
            "it is made again from the raw files"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--root {root}: {error}") from error
    if len(dataset) != num_graphs:
        raise BenchmarkError(
            f"{processed / 'data.pt'} holds {len(dataset)} graphs, but the raw files "
            f"{num_graphs}: delete it, it is made again"
        )
    return dataset


def _download(name: str, root: Path, raw: Path, cleaned: bool) -> None:
    """Downloads the raw files to a temporary folder, then moves them to `raw`."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        root.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".download-", dir=root))
    except OSError as error:
        raise BenchmarkError(f"--root {root}: {error}") from error
    try:
        TUDataset(str(temporary), name, cleaned=cleaned)
        raw.parent.mkdir(exist_ok=True)
        (temporary / name / raw.name).rename(raw)
    except Exception as error:
        # A download can raise errors of several libraries.
        raise BenchmarkError(
            f"--dataset {name}: there are no raw files in {raw}, and the download of a TU data "
            f"set of that name failed ({first_line(error)}). Without a network, unpack the data "
            f"set so that {raw} holds "
            f"{', '.join(f'{name}_{part}.txt' for part in (*REQUIRED, 'node_labels'))} and what "
            f"else it has; --root chooses another folder than {root}. The data set {GENERATED!r}, "
            "the default, is generated and needs no files."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in made:
            if not any(folder.iterdir()):
                folder.rmdir()
