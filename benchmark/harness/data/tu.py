"""Data sets of the TU collection: raw files, which are text, and their download."""

import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.io import read_tu_data

from harness.data.tu_cache import NAME as CACHE
from harness.data.tu_cache import Arrays, checksum, read_cache, write_cache
from harness.data.tu_checks import REQUIRED, check_raw, read_part
from harness.errors import BenchmarkError, first_line

#: The longest name of a data set; a file name has at most 255 characters.
LONGEST = 100


class TUData(NamedTuple):
    """The graphs of a data set, and what the columns of their `x` are: attributes, then labels."""

    graphs: list[Data]
    num_classes: int
    num_node_attributes: int
    num_node_labels: int


def load_tu(name: str, root: Path, cleaned: bool) -> TUData:
    """Loads a data set from its raw files in `root`; downloads them if there are none.

    Nothing in `root` is unpickled, so a folder that is not trusted cannot run code.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is None or len(name) > LONGEST:
        shown = name if len(name) <= LONGEST else f"{name[:20]}... of {len(name)} characters"
        raise BenchmarkError(
            f"--dataset must be the name of a TU data set, at most {LONGEST} characters, got "
            f"{shown!r}"
        )
    suffix = "_cleaned" if cleaned else ""
    raw = root / name / f"raw{suffix}"
    if not any((raw / f"{name}_{part}.txt").exists() for part in REQUIRED):
        _download(name, root, raw, cleaned)
    cache = root / name / f"processed{suffix}" / CACHE
    try:
        made_from = checksum(raw, name)
        arrays = read_cache(cache, made_from)
        if arrays is None:
            check_raw(raw, name)
            arrays = _read(raw, name)
            write_cache(cache, arrays, made_from)
    except OSError as error:
        raise BenchmarkError(f"--root {root}: {error}") from error
    attributes, labels = arrays["columns"].tolist()
    return TUData(_graphs(arrays), int(arrays["y"].max()) + 1, attributes, labels)


def _read(raw: Path, name: str) -> Arrays:
    """Reads raw files that have been checked, as PyG does."""
    try:
        data, slices, sizes = read_tu_data(str(raw), name)
    except (RuntimeError, ValueError, KeyError) as error:
        raise BenchmarkError(
            f"the raw files in {raw} cannot be read ({first_line(error)}): delete them and "
            "unpack, or download, the data set again"
        ) from error
    graph = read_part(raw, name, "graph_indicator")[:, 0]
    names = [name for name in ("x", "edge_index", "edge_attr", "y") if data.get(name) is not None]
    return {
        **{name: data[name].numpy() for name in names},
        "edge_slices": slices["edge_index"].numpy(),
        "node_slices": np.cumsum(np.bincount(graph)),  # graphs count from 1
        "columns": np.array([sizes["num_node_attributes"], sizes["num_node_labels"]]),
    }


def _graphs(arrays: Arrays) -> list[Data]:
    """The graphs, as views of the arrays."""
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    nodes, edges = arrays["node_slices"].tolist(), arrays["edge_slices"].tolist()

    def part(name: str, first: int, last: int) -> Optional[Tensor]:
        return tensors[name][first:last] if name in tensors else None

    return [
        Data(
            x=part("x", nodes[i], nodes[i + 1]),
            edge_index=tensors["edge_index"][:, edges[i] : edges[i + 1]],
            edge_attr=part("edge_attr", edges[i], edges[i + 1]),
            y=tensors["y"][i : i + 1],
            num_nodes=None if "x" in tensors else nodes[i + 1] - nodes[i],
        )
        for i in range(len(nodes) - 1)
    ]


class _RawFiles(TUDataset):
    """PyG's download, without reading what came."""

    def __init__(self, root: Path, name: str, cleaned: bool) -> None:
        self.root, self.name, self.cleaned = str(root), name, cleaned


def _download(name: str, root: Path, raw: Path, cleaned: bool) -> None:
    """Downloads the raw files to a temporary folder, then moves them to `raw`."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        root.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".download-", dir=root))
    except OSError as error:
        raise BenchmarkError(f"--root {root}: {error}") from error
    try:
        files = _RawFiles(temporary, name, cleaned)
        Path(files.raw_dir).mkdir(parents=True)
        files.download()
        raw.parent.mkdir(exist_ok=True)
        Path(files.raw_dir).rename(raw)
    except Exception as error:
        # A download can raise errors of several libraries.
        raise BenchmarkError(
            f"--dataset {name}: there are no raw files in {raw}, and the download of a TU data "
            f"set of that name failed ({first_line(error)}). Without a network, unpack the data "
            f"set so that {raw} holds "
            f"{', '.join(f'{name}_{part}.txt' for part in (*REQUIRED, 'node_labels'))} and what "
            f"else it has; --root chooses another folder than {root}. Generated data sets need no "
            "files: graph_classification.py --help names them."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in made:
            if not any(folder.iterdir()):
                folder.rmdir()
