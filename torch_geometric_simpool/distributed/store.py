"""The top k on disk: a folder of Arrow files, one for each block of rows."""

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import pyarrow
import torch
from torch import Tensor

from torch_geometric_simpool.distributed.files import absolute_path
from torch_geometric_simpool.topk.parse import NodeIds, parse_nodes
from torch_geometric_simpool.topk.spec import EdgeList

#: The entry of a schema's metadata with the settings.
METADATA = b"torch_geometric_simpool"


class StoreSettings(NamedTuple):
    """The settings of a folder, which are in the metadata of each block."""

    graph: str  # the name of its build
    num_nodes: int
    rows_per_block: int
    k: int
    dtype: str  # of the similarities
    measure: str
    loop: bool
    min_similarity: Optional[float]

    @property
    def num_blocks(self) -> int:
        """The number of blocks. A graph without nodes has one empty block."""
        return max(-(-self.num_nodes // self.rows_per_block), 1)

    def rows_of(self, block: int) -> tuple[int, int]:
        """Returns the first node of a block, and the first node that follows it."""
        start = block * self.rows_per_block
        return start, min(start + self.rows_per_block, self.num_nodes)


def write_block(
    folder: Path, block: int, values: Tensor, index: Tensor, settings: StoreSettings
) -> None:
    """Writes a block. A process that is killed before the end leaves no block."""
    id_type = np.int32 if settings.num_nodes <= np.iinfo(np.int32).max else np.int64
    places = {"neighbor": index.numpy().astype(id_type), "similarity": values.numpy()}
    lists = (
        pyarrow.FixedSizeListArray.from_arrays(part.ravel(), settings.k) for part in places.values()
    )
    batch = pyarrow.record_batch(
        [pyarrow.array(np.arange(*settings.rows_of(block))), *lists], ["node", *places]
    ).replace_schema_metadata({METADATA: json.dumps(settings._asdict())})
    path = folder / f"block-{block:06d}.arrow"
    temporary = folder / f".{path.name}.{uuid.uuid4().hex}"
    try:
        with pyarrow.ipc.new_file(str(temporary), batch.schema) as writer:
            writer.write_batch(batch)
        # Another process may have finished the folder, and removed this file.
        with suppress(FileNotFoundError):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_blocks(folder: Path) -> tuple[Optional[StoreSettings], dict[int, list[np.ndarray]]]:
    """Returns the settings of a folder, or `None`, and the values and indices of its blocks.

    The blocks are mapped. Damaged blocks are left out, and so are blocks whose settings differ from
    the first block.
    """
    settings, blocks = None, {}
    for path in sorted(folder.glob("block-*.arrow")):
        with suppress(OSError, pyarrow.ArrowException, KeyError, TypeError, ValueError):
            file = pyarrow.ipc.open_file(pyarrow.memory_map(str(path)))
            of_block = StoreSettings(**json.loads(file.schema.metadata[METADATA]))
            lists = (file.get_batch(0).column(name) for name in ("similarity", "neighbor"))
            rows = [column.values.to_numpy().reshape(-1, of_block.k) for column in lists]
            settings = settings or of_block
            if of_block == settings:
                blocks[int(path.stem.removeprefix("block-"))] = rows
    return settings, blocks


class TopKStore:
    """The rows that :func:`topk_to_disk` has written.

    The folder holds Arrow IPC files, `block-000000.arrow` and so on, with the columns `node`,
    `neighbor` and `similarity`. The last two are lists of `k` places, with -1 and 0 in empty
    places. `pyarrow.dataset.dataset(out, format="ipc")` opens the folder for pandas, Polars and
    DuckDB; `pandas.read_feather` and `polars.read_ipc` open a file.

    Args:
        out (path): The folder.

    Attributes:
        num_nodes (int): The number of rows.
        k (int): The number of places in a row.

    Raises:
        TypeError, ValueError: If `out` is no path, the folder does not exist, or rows are missing.

    Example:
        >>> import numpy, tempfile
        >>> from torch_geometric_simpool.distributed import DiskGraph, topk_to_disk
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/star.npy", [[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> graph = DiskGraph.build(folder, f"{folder}/graph", progress=False)
        >>> store = topk_to_disk(graph, 2, f"{folder}/top2", progress=False)
        >>> TopKStore(f"{folder}/top2").read([2])
        (tensor([[1., 1.]]), tensor([[1, 2]]))
    """

    def __init__(self, out: Union[str, os.PathLike]) -> None:
        self.path = absolute_path("out", out)
        settings, self._blocks = read_blocks(self.path)
        if settings is None:
            raise ValueError(
                f"`out` must be a folder that topk_to_disk has written, got {self.path}, which "
                f"{'has no complete block' if self.path.exists() else 'does not exist'}"
            )
        missing = settings.num_blocks - len(self._blocks)
        if missing > 0:
            raise ValueError(
                f"`out` must be complete, got {self.path}, where {missing} of "
                f"{settings.num_blocks} blocks are missing, damaged or of another call: call "
                "topk_to_disk again, which computes these alone"
            )
        self._settings, self.k, self.num_nodes = settings, settings.k, settings.num_nodes

    def __reduce__(self) -> Any:
        """Returns the call by which another process opens the folder."""
        return TopKStore, (self.path,)

    def read(self, nodes: Union[NodeIds, np.ndarray, None] = None) -> tuple[Tensor, Tensor]:
        """Returns the rows of some nodes, or of all.

        Args:
            nodes (int, sequence or torch.Tensor, optional): Ids of nodes, in any order, repeats
                allowed. If the rows of all nodes do not fit into memory, read a range of nodes at a
                time. (default: :obj:`None`, all nodes)

        Returns:
            (torch.Tensor, torch.Tensor): `values` and `index`, `[M, k]`, as
            :func:`topk_similarity` returns them, bit for bit.

        Raises:
            TypeError, ValueError: If `nodes` has a wrong type or shape, or is out of range.
        """
        if nodes is None:
            nodes = torch.arange(self.num_nodes)
        edges = EdgeList(torch.empty(2, 0), None, self.num_nodes)
        ids = parse_nodes(nodes, edges).numpy()  # type: ignore[arg-type, union-attr]
        blocks, rows = np.divmod(ids, self._settings.rows_per_block)
        values = np.empty((ids.size, self.k), self._settings.dtype)
        index = np.empty((ids.size, self.k), np.int64)
        for number in np.unique(blocks).tolist():
            places = blocks == number
            values[places], index[places] = (part[rows[places]] for part in self._blocks[number])
        return torch.from_numpy(values), torch.from_numpy(index)

    def __repr__(self) -> str:
        return f"TopKStore({str(self.path)!r}, num_nodes={self.num_nodes}, k={self.k})"
