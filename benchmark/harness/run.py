"""One run of the benchmark: :class:`Run` has its settings, :class:`Result` its outcome."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Optional

from torch_geometric_simpool.models import PRESETS, Architecture, Preset

FOLDS = 10
GENERATED = ("motifs", "motifs-by-ring", "communities", "islands", "twins", "twin-colors")
#: The presets of the paper, and two that are narrow enough for two cores.
BENCHMARK_PRESETS = {
    **PRESETS,
    "motifs": replace(
        PRESETS["enzymes-10fold"],
        architecture=PRESETS["enzymes-10fold"].architecture.scaled(0.25),
        lr=3e-4,
        epochs=60,
    ),
    "narrow": Preset(
        Architecture(32, (32, 32), (32, 32), 32, gcn=(32, 32), assignment=32, clusters=(8, 4)),
        k=8,
        epochs=30,
        lr=5e-3,
        batch_size=20,
    ),
}
#: Protocols with test graphs and no selection of settings.
TESTED = ("tested", "published")
#: Data sets of the preset 'narrow'.
NARROW = ("twins", "twin-colors", "gcb-easy", "gcb-hard")
#: Settings that only some methods read, with these methods.
DIFFPOOL = ("diffpool", "diffpool-unnormalized")
_SIMPOOL = ("features", "gru", "entropy_scaler", "cluster_scaler")
SIMILAR = ("similarity-edges", "similarity-set", "simmatch")
SETTING_USED_BY = {
    **dict.fromkeys(_SIMPOOL, ("simpool",)),
    **dict.fromkeys(("k", "p", "lam"), ("simpool", "index-assignment", *SIMILAR)),
    **dict.fromkeys(("alpha", "order"), ("simpool", "index-assignment")),
    "similar": SIMILAR,
    "dropout": ("simpool", *DIFFPOOL, "baseline"),
    "readout": ("simpool", *DIFFPOOL),
    "entropy_warmup": ("simpool", *DIFFPOOL),
}
#: The default of settings that a preset has.
UNSET: Any = None


def preset_of(dataset: str) -> str:
    """Returns the name of the default preset of a data set."""
    if dataset in NARROW:
        return "narrow"
    return "motifs" if dataset in GENERATED else {"DD": "dd-10fold"}.get(dataset, "enzymes-10fold")


@dataclass(frozen=True)
class Run:
    """The settings of one training. Two runs are the same if all settings are equal.

    Settings of the preset are unset until :meth:`filled`.
    """

    dataset: str
    preset: str
    method: str = "simpool"
    #: 'paper', 'nested-selection', 'nested', or 'tested', whose folds have test graphs as well;
    #: 'published' is the split of the data set, and `fold` is the seed of the weights.
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
    #: The numbering of the nodes for structural features; 'given' is the one of the data set.
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
    #: The similar nodes of a method that reads them: 'cosine', or a control in their place.
    similar: str = "cosine"

    def filled(self) -> "Run":
        """Returns the run with the values of its preset, where nothing else is set.

        Settings that the method does not read have their defaults.
        """
        preset = BENCHMARK_PRESETS[self.preset]
        unset = {f.name for f in fields(self) if getattr(self, f.name) is UNSET}
        run = replace(self, **{n: getattr(preset, n) for n in unset if hasattr(preset, n)})
        unread: dict[str, Any] = {
            f.name: f.default
            for f in fields(self)
            if run.method not in SETTING_USED_BY.get(f.name, (run.method,))
        }
        return replace(run, **unread)

    @property
    def title(self) -> str:
        """The run in a few words."""
        words = [self.dataset, self.protocol, self.method, f"fold {self.fold}"]
        words += [] if self.config is None else [self.config]
        return ", ".join(words + ([f"repetition {self.repetition}"] if self.repetition else []))

    @property
    def architecture(self) -> Any:
        """The layer widths of the network."""
        return BENCHMARK_PRESETS[self.preset].architecture.scaled(self.width)


@dataclass
class Drawing:
    """A validation graph with the clusters of level 0."""

    y: int
    edges: list[list[int]]
    clusters: list[int]
    #: The labels of the nodes; runs of the first version have none.
    labels: Optional[list[int]] = None


@dataclass
class Result:
    """The outcome of a run. A run that diverged has an `error` and no accuracies."""

    run: Run
    #: Name, sizes and checksum of the data set; numbers of graphs of each part.
    data: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    commit: Optional[str] = None
    command: str = ""
    num_parameters: int = 0
    seconds: float = 0.0
    cpu_seconds: Optional[float] = None
    error: Optional[str] = None
    best_val_accuracy: float = -1.0
    #: Counted from 1; the first epoch with the best accuracy.
    best_epoch: int = 0
    seconds_per_epoch: float = 0.0
    #: A value for each epoch: `loss`, `train_accuracy`, `val_accuracy` and, for each level of soft
    #: assignments, `entropy_loss_0`, `cluster_loss_0`, `clusters_0`, ...
    history: dict[str, list[float]] = field(default_factory=dict)
    test_accuracy: Optional[float] = None
    test_labels: Optional[list[int]] = None
    test_probabilities: Optional[list[list[float]]] = None
    #: Measures of the clusters of level 0, for methods that partition the nodes.
    locality: Optional[dict[str, Optional[float]]] = None
    num_clusters: Optional[int] = None
    drawn: Optional[list[Drawing]] = None
