"""Reads `gcb-easy` and `gcb-hard`, in their small versions, of the benchmark of Bianchi et al.
(2022), 'Pyramidal Reservoir Graph Neural Network'.

The files `easy_small.npz` and `hard_small.npz` are in the folder `datasets` of
https://github.com/FilippoMB/Benchmark_dataset_for_graph_classification (MIT). Put them into the
folder `gcb` of `--root`. They hold pickled objects. Only NumPy arrays and SciPy matrices are
unpickled, so a file cannot run code.
"""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix

from harness.command import BenchmarkError, first_line

NAMES = ("gcb-easy", "gcb-hard")
NUM_CLASSES = 3
#: The parts of the published split, by their names in the files.
PARTS = {"tr": "train", "val": "validation", "te": "test"}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuses all but arrays and sparse matrices."""
        allowed = {"ndarray", "dtype", "_reconstruct", "csr_matrix", "encode"}
        if module.partition(".")[0] not in ("numpy", "scipy", "_codecs") or name not in allowed:
            raise ValueError(f"it holds an object {module}.{name}")
        return super().find_class(module, name)


def load_gcb(name: str, root: Path) -> tuple[list[Data], dict[str, np.ndarray]]:
    """Returns all graphs, `x` one-hot `[N, 5]`, and the indices of the graphs in each part."""
    path = root / "gcb" / f"{name.removeprefix('gcb-')}_small.npz"
    graphs: list[Data] = []
    split = {}
    try:
        with zipfile.ZipFile(path) as file:
            for key, part in PARTS.items():
                first = len(graphs)
                arrays = (_read(file, f"{key}_{kind}.npy") for kind in ("feat", "adj", "class"))
                for x, adj, y in zip(*arrays, strict=True):
                    edge_index, _ = from_scipy_sparse_matrix(adj)
                    x, label = torch.from_numpy(x).float(), torch.tensor([int(y.argmax())])
                    graphs.append(Data(x=x, edge_index=edge_index, y=label))
                split[part] = np.arange(first, len(graphs))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise BenchmarkError(
            f"--dataset {name}: {path} cannot be read ({first_line(error)}). Copy it from datasets "
            "of https://github.com/FilippoMB/Benchmark_dataset_for_graph_classification"
        ) from error
    return graphs, split


def _read(file: zipfile.ZipFile, name: str) -> np.ndarray:
    with file.open(name) as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.hasobject:
            return _Unpickler(stream).load()
        return np.frombuffer(stream.read(), dtype).reshape(shape)
