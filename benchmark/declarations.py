"""What a run of the study is, and what a table of them is."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Optional

from options import BENCHMARK_PRESETS, ONLY_SIMPOOL

FOLDS = 10


@dataclass(frozen=True)
class Run:
    """All that the outcome of one training depends on."""

    dataset: str
    preset: str
    method: str = "simpool"
    protocol: str = "paper"
    fold: int = 0
    seed: int = 0
    cleaned: bool = True
    node_features: Optional[str] = None
    width: float = 1.0
    features: str = "structural"
    gru: bool = False
    k: int = 0
    p: int = 0
    lam: float = -1.0
    alpha: float = -1.0
    entropy_scaler: float = -1.0
    cluster_scaler: float = -1.0
    epochs: int = 0
    batch_size: int = 0
    lr: float = 0.0
    order: str = "given"
    folds: int = FOLDS
    #: Protocol 'nested': the checksum of the splits, and the choice or the repetition.
    splits: Optional[str] = None
    config: Optional[str] = None
    repetition: int = 0

    def filled(self) -> "Run":
        """What the preset says, where nothing else was said."""
        preset = BENCHMARK_PRESETS[self.preset]
        empty = {
            f.name: getattr(preset, f.name)
            for f in fields(self)
            if hasattr(preset, f.name) and getattr(self, f.name) == f.default
        }
        run = replace(self, **empty)
        if run.method == "simpool":
            return run
        # What only SimPool reads is no setting of a peer.
        neutral = {f.name: f.default for f in fields(self) if f.name in (*ONLY_SIMPOOL, "order")}
        return replace(run, **neutral)  # type: ignore[arg-type]

    @property
    def settings(self) -> dict[str, Any]:
        """What is stored with the figures."""
        return asdict(self)

    @property
    def key(self) -> str:
        """The name of its file. Settings that have their default do not enter.

        So a setting that is added later leaves the names of finished runs as they are.
        """
        said = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.dataset}-{self.protocol}-{self.method}-fold{self.fold}-{digest}"


@dataclass(frozen=True)
class Row:
    """One line of a table: its runs, and what the paper reports for it."""

    label: str
    runs: tuple[Run, ...]
    paper: Optional[str] = None


@dataclass(frozen=True)
class Experiment:
    """One table."""

    name: str
    title: str
    rows: tuple[Row, ...]
    note: str = ""
    #: Whether it is run only when named, and shown only when there is something of it.
    optional: bool = False

    @property
    def runs(self) -> Iterator[Run]:
        """All runs of the table."""
        for row in self.rows:
            yield from row.runs


@dataclass(frozen=True)
class Nested:
    """A table by protocol 'nested': a grid for each method, chosen from fold by fold."""

    name: str
    title: str
    base: Run
    methods: tuple[str, ...]
    #: What each choice changes, by its name; the same choices for every method.
    grid: dict[str, dict[str, Any]]
    repetitions: int
    #: What is known from print, by method, and whose figure it is.
    printed: dict[str, str]
    note: str = ""

    def selection(self, method: str, fold: int, splits: str) -> dict[str, Run]:
        """The runs to choose by, by the name of the choice."""
        return {
            name: replace(
                self.base,
                protocol="nested-selection",
                method=method,
                fold=fold,
                splits=splits,
                config=name,
                **changes,
            ).filled()
            for name, changes in self.grid.items()
        }

    def final(self, chosen: Run) -> list[Run]:
        """The runs that are tested, given the one that was chosen."""
        final = replace(chosen, protocol="nested")
        return [replace(final, repetition=r) for r in range(1, self.repetitions + 1)]
