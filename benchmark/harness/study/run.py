"""One run of the study: all that its result depends on, and the name of its file."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Optional

from harness.methods.presets import BENCHMARK_PRESETS, READERS

FOLDS = 10
#: The default of what a preset says. :meth:`Run.filled` replaces it, but not where a method does
#: not read the setting.
UNSET: Any = None
#: What files hold in its place: they are older than `UNSET`.
STORED_UNSET = {
    "k": 0,
    "p": 0,
    "lam": -1.0,
    "alpha": -1.0,
    "entropy_scaler": -1.0,
    "cluster_scaler": -1.0,
}


@dataclass(frozen=True)
class Run:
    """The settings of one training. Those of a preset are unset until :meth:`filled`."""

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
    k: int = UNSET
    p: int = UNSET
    lam: float = UNSET
    alpha: float = UNSET
    entropy_scaler: float = UNSET
    cluster_scaler: float = UNSET
    epochs: int = UNSET
    batch_size: int = UNSET
    lr: float = UNSET
    order: str = "given"
    folds: int = FOLDS
    #: Protocol 'nested': the checksum of the splits, the choice of settings, and the repetition.
    splits: Optional[str] = None
    config: Optional[str] = None
    repetition: int = 0
    #: Whether the class probabilities of the test graphs are stored.
    probabilities: bool = False
    dropout: float = 0.0
    weight_decay: float = 0.0
    #: The share of the epochs in which the scaler of L_E grows from 0.
    entropy_warmup: float = 0.0
    readout: str = "last"

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Run":
        """The run that has stored these settings."""
        unset = {n: UNSET for n, old in STORED_UNSET.items() if settings.get(n) == old}
        return cls(**{**settings, **unset})

    def filled(self) -> "Run":
        """The run with the values of its preset where nothing else is set."""
        preset = BENCHMARK_PRESETS[self.preset]
        missing = {f.name for f in fields(self) if getattr(self, f.name) is UNSET}
        run = replace(self, **{n: getattr(preset, n) for n in missing if hasattr(preset, n)})
        # What a method does not read is none of its settings.
        neutral = {
            f.name: f.default
            for f in fields(self)
            if run.method not in READERS.get(f.name, (run.method,))
        }
        return replace(run, **neutral)  # type: ignore[arg-type]

    @property
    def settings(self) -> dict[str, Any]:
        """What is stored with the results."""
        return asdict(self)

    @property
    def key(self) -> str:
        """The name of its file.

        Settings with their default values do not count, so that a new setting does not change
        the names of finished runs.
        """
        changed = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }
        digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:10]
        method = self.method.replace(":", "-")
        return f"{self.dataset}-{self.protocol}-{method}-fold{self.fold}-{digest}"
