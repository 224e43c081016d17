"""The data sets: generated motifs, or those of the TU collection, by name."""

import hashlib
import pickle
import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import TUDataset
from tqdm import tqdm

from errors import BenchmarkError
from motifs import NUM_CLASSES, generate_motifs
from torch_geometric_simpool import StructuralSimilarity

DEFAULT = "motifs"
REQUIRED = ("A", "graph_indicator", "graph_labels")
#: They are encoded one-hot; a larger span is no label.
MOST_LABELS = 100_000
OPTIONAL = ("node_labels", "node_attributes", "edge_labels", "edge_attributes")


@dataclass
class GraphData:
    """Graphs to classify, and what their columns mean."""

    name: str
    graphs: list[Data]
    num_classes: int
    node_features: str  # 'labels', 'labels+attributes' or 'constant'
    num_attributes: int  # leading columns of `x` that are continuous

    @property
    def num_features(self) -> int:
        return self.graphs[0].x.size(1)

    @property
    def edge_dim(self) -> Optional[int]:
        edge_attr = self.graphs[0].edge_attr
        return None if edge_attr is None else edge_attr.size(1)

    @property
    def labels(self) -> np.ndarray:
        return np.array([int(graph.y) for graph in self.graphs])

    def describe(self) -> dict:
        edges = [graph.num_edges / 2 for graph in self.graphs]
        return {
            "name": self.name,
            "num_graphs": len(self.graphs),
            "mean_num_nodes": round(float(np.mean([g.num_nodes for g in self.graphs])), 2),
            "mean_num_edges": round(float(np.mean(edges)), 2),
            "num_classes": self.num_classes,
            "num_node_features": self.num_features,
            "edge_dim": self.edge_dim,
            "checksum": self._checksum(),
        }

    def _checksum(self) -> str:
        """Tells apart data that have the same name."""
        digest = hashlib.sha256()
        for graph in self.graphs:
            for value in (graph.edge_index, graph.x, graph.y):
                digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def standardised(self, train: np.ndarray) -> list[Data]:
        """The graphs, continuous columns standardised by the nodes of those in `train`."""
        if self.num_attributes == 0:
            return self.graphs
        known = torch.cat([self.graphs[i].x[:, : self.num_attributes] for i in train])
        mean, std = known.mean(dim=0), known.std(dim=0, correction=0)
        std[std == 0] = 1
        graphs = []
        for graph in self.graphs:
            attributes, labels = graph.x.tensor_split([self.num_attributes], dim=1)
            graphs.append(graph.clone())
            graphs[-1].x = torch.cat([(attributes - mean) / std, labels], dim=1)
        return graphs


def load(name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int) -> GraphData:
    """Loads a data set; any fault is a :class:`BenchmarkError` that says what to do."""
    if name == DEFAULT:
        if cleaned:
            raise BenchmarkError(f"--cleaned: the generated data set {DEFAULT!r} has no such form")
        if node_features == "labels+attributes":
            raise BenchmarkError(f"--node-features: {DEFAULT!r} has no attributes, only labels")
        return GraphData(DEFAULT, generate_motifs(seed=seed), NUM_CLASSES, "labels", 0)
    dataset = _load_tu(name, Path(root), cleaned)
    graphs = [dataset.get(i) for i in range(len(dataset))]
    num_attributes, num_labels = dataset.num_node_attributes, dataset.num_node_labels
    if node_features == "labels+attributes" and num_attributes == 0:
        raise BenchmarkError(f"--node-features labels+attributes: {name} has no node attributes")
    if node_features == "labels" and num_labels == 0:
        raise BenchmarkError(f"--node-features labels: {name} has no node labels")
    if num_attributes + num_labels == 0:
        node_features = "constant"
        for graph in graphs:
            graph.x = torch.ones(graph.num_nodes, 1)
    elif node_features is None:
        node_features = "labels+attributes" if num_attributes > 0 else "labels"
    if node_features == "labels" and num_attributes > 0:
        for graph in graphs:
            graph.x = graph.x[:, num_attributes:]
        num_attributes = 0
    return GraphData(name, graphs, dataset.num_classes, node_features, num_attributes)


def add_structural_features(
    graphs: list[Data], transform: StructuralSimilarity, at_once: int = 64
) -> None:
    """Writes `sim` to every graph, many of them at a time."""
    chunks = range(0, len(graphs), at_once)
    for start in tqdm(chunks, desc="structural similarity", leave=False, disable=None):
        chunk = graphs[start : start + at_once]
        plain = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in chunk]
        features: Tensor = transform(Batch.from_data_list(plain)).sim
        for graph, sim in zip(chunk, features.split([g.num_nodes for g in chunk])):
            graph.sim = sim


def _load_tu(name: str, root: Path, cleaned: bool) -> TUDataset:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is None:
        raise BenchmarkError(f"--dataset must be the name of a TU data set, got {name!r}")
    suffix = "_cleaned" if cleaned else ""
    raw = root / name / f"raw{suffix}"
    processed = root / name / f"processed{suffix}"
    if not any((raw / f"{name}_{part}.txt").exists() for part in REQUIRED):
        _download(name, root, raw, cleaned)
    there = (processed / "data.pt").exists()
    num_graphs = check_raw(raw, name) if not there else len(_read(raw, name, "graph_labels"))
    try:
        with warnings.catch_warnings():
            # PyG only warns, and goes on with data that something else has changed.
            warnings.filterwarnings("error", message="The `pre_(transform|filter)` argument")
            dataset = TUDataset(
                str(root), name, use_node_attr=True, use_edge_attr=True, cleaned=cleaned
            )
    except UserWarning as error:
        raise BenchmarkError(
            f"{processed / 'data.pt'} was made with a `pre_transform` or `pre_filter` of its own: "
            f"choose another --root, or delete {processed}, it is made anew from the raw files"
        ) from error
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as error:
        if not there:
            shutil.rmtree(processed, ignore_errors=True)
            raise BenchmarkError(
                f"the raw files in {raw} cannot be read ({_first_line(error)}): delete them and "
                "unpack, or download, the data set again"
            ) from error
        raise BenchmarkError(
            f"{processed / 'data.pt'} cannot be read ({_first_line(error)}): delete it, it is "
            "made anew from the raw files"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--root {root}: {error}") from error
    if len(dataset) != num_graphs:
        raise BenchmarkError(
            f"{processed / 'data.pt'} holds {len(dataset)} graphs, but the raw files "
            f"{num_graphs}: delete it, it is made anew"
        )
    return dataset


def _download(name: str, root: Path, raw: Path, cleaned: bool) -> None:
    """Downloads the raw files of a data set to a temporary folder, then moves them there."""
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
        # Whatever a download can fail with, in any library below.
        raise BenchmarkError(
            f"--dataset {name}: there are no raw files in {raw}, and the download of a TU data "
            f"set of that name failed ({_first_line(error)}). Without a network, unpack the data "
            f"set so that {raw} holds "
            f"{', '.join(f'{name}_{part}.txt' for part in (*REQUIRED, 'node_labels'))} and what "
            f"else it has; --root chooses another folder than {root}. The data set {DEFAULT!r}, "
            "the default, is generated and needs no files."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in made:
            if not any(folder.iterdir()):
                folder.rmdir()


def check_raw(raw: Path, name: str) -> int:
    """Checks the raw files, and against each other, before PyG parses them.

    Returns the number of graphs.
    """
    for part in REQUIRED:
        if not (raw / f"{name}_{part}.txt").exists():
            raise BenchmarkError(
                f"{raw / f'{name}_{part}.txt'} is missing: {name} needs "
                f"{', '.join(f'{name}_{p}.txt' for p in REQUIRED)}"
            )
    if (raw / f"{name}_graph_attributes.txt").exists():
        raise BenchmarkError(
            f"--dataset {name}: it has {name}_graph_attributes.txt, so PyG loads it for "
            "regression; this benchmark classifies"
        )
    graph = _read(raw, name, "graph_indicator")[:, 0]
    if graph[0] != 1 or np.any((np.diff(graph) < 0) | (np.diff(graph) > 1)):
        raise _damaged(
            raw / f"{name}_graph_indicator.txt",
            "it must count the graphs from 1, in ascending order",
        )
    _check_count(raw, name, "graph_labels", len(_read(raw, name, "graph_labels")), int(graph[-1]))
    edges = _read(raw, name, "A")
    _check_edges(raw / f"{name}_A.txt", edges, graph)
    for part in OPTIONAL:
        if (raw / f"{name}_{part}.txt").exists():
            expected = len(graph) if part.startswith("node") else len(edges)
            _check_count(raw, name, part, len(_read(raw, name, part)), expected)
    return int(graph[-1])


def _check_edges(path: Path, edges: np.ndarray, graph: np.ndarray) -> None:
    """Every edge within one graph, in both directions, and none missing at the end."""
    num_nodes = len(graph)
    outside = edges[(edges < 1) | (edges > num_nodes)]
    if outside.size > 0:
        raise _damaged(
            path,
            f"node numbers must lie between 1 and {num_nodes}, the lines of "
            f"{path.name.replace('_A.', '_graph_indicator.')}, got {outside[0]}",
        )
    between = np.flatnonzero(graph[edges[:, 0] - 1] != graph[edges[:, 1] - 1])
    if between.size > 0:
        raise _damaged(path, f"line {between[0] + 1} joins nodes of two graphs")
    key = np.unique(edges[:, 0] * (num_nodes + 1) + edges[:, 1])
    back = np.unique(edges[:, 1] * (num_nodes + 1) + edges[:, 0])
    missing = np.setdiff1d(back, key, assume_unique=True).size
    if missing > 0:
        raise _damaged(path, f"{missing} edges are there in one direction only")
    # PyG would drop these graphs without a word.
    bare = int(graph[-1] - graph[edges.max() - 1])
    if bare > 0:
        raise _damaged(path, f"it ends before the last {bare} graphs, which have no edge")


def _read(raw: Path, name: str, part: str) -> np.ndarray:
    path = raw / f"{name}_{part}.txt"
    dtype = np.float64 if part.endswith("attributes") else np.int64
    try:
        text = path.read_bytes()
        if not text.strip():
            raise _damaged(path, "it is empty")
        if not text.endswith(b"\n"):
            raise _damaged(path, "it ends in the middle of a line")
        rows = np.loadtxt(path, dtype=dtype, delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        raise _damaged(path, _first_line(error)) from error
    except OSError as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from error
    if len(rows) != text.count(b"\n"):
        raise _damaged(path, f"{text.count(bytes([10])) - len(rows)} of its lines are blank")
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}.get(part, rows.shape[1])
    if rows.shape[1] != columns:
        raise _damaged(path, f"a line must hold {columns} numbers, got {rows.shape[1]}")
    with np.errstate(over="ignore"):
        if not np.isfinite(rows.astype(np.float32)).all():
            raise _damaged(path, "it holds NaN, infinite, or too large numbers")
    if part.endswith("labels") and rows.max() - rows.min() > MOST_LABELS:
        raise _damaged(path, f"labels must span at most {MOST_LABELS}, got {rows.max()}")
    return rows


def _check_count(raw: Path, name: str, part: str, came: int, expected: int) -> None:
    path = raw / f"{name}_{part}.txt"
    if came != expected:
        other = "A" if part.startswith("edge") else "graph_indicator"
        raise _damaged(
            path, f"it must have {expected} lines to go with {name}_{other}.txt, got {came}"
        )


def _damaged(path: Path, why: str) -> BenchmarkError:
    return BenchmarkError(
        f"{path} is damaged or was downloaded in part: {why}. Delete it and unpack, or "
        "download, the data set again."
    )


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
