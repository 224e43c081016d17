"""One run of the benchmark: :class:`Run` has its settings, :class:`Result` its outcome."""

from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Optional

from harness.command import number
from torch_geometric_simpool.models import PRESETS, Architecture, Preset

FOLDS = 10
#: Eigenvectors of the Laplacian: as node features beside the labels, or as input of assignments.
WITH_ENCODINGS, ENCODINGS = "labels+laplacian", "laplacian"
NODE_FEATURES = ("labels", "labels+attributes", WITH_ENCODINGS)
GENERATED = ("motifs", "motifs-by-ring", "communities", "islands", "twins", "twin-colors")
#: The presets of the paper, and two presets with narrow networks for two cores.
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
#: Protocols that have test graphs and do not select settings.
TESTED = ("tested", "published")
#: Data sets of the preset 'narrow'.
NARROW = ("twins", "twin-colors", "gcb-easy", "gcb-hard")
#: Methods that read a setting.
SIMILAR = ("similarity-edges", "similarity-set", "simmatch")
_ORDERED = ("simpool", "index-assignment")
_LEVELS = ("simpool", "diffpool", "diffpool-unnormalized")
#: The default of settings that the preset fills.
UNSET: Any = None


def preset_of(dataset: str) -> str:
    """Returns the name of the default preset of a data set."""
    names = dict.fromkeys(GENERATED, "motifs") | dict.fromkeys(NARROW, "narrow")
    return (names | {"DD": "dd-10fold"}).get(dataset, "enzymes-10fold")


def option(
    default: Any, meaning: str, methods: Optional[tuple[str, ...]] = None, **settings: Any
) -> Any:
    """Returns a field of :class:`Run` that is an option of `graph_classification.py`.

    Args:
        default (Any): The default of the field.
        meaning (str): The help text of the option.
        methods (tuple[str, ...], optional): The methods that read the setting. (default: all)
        **settings (optional): Arguments of `ArgumentParser.add_argument`.
    """
    option = {"help": meaning.replace("%", "%%"), **settings}
    return field(default=default, metadata={"option": option, "methods": methods})


@dataclass(frozen=True)
class Run:
    """The settings of one training. Two runs are the same if all settings are equal.

    Settings of the preset are unset until :meth:`filled`.
    """

    dataset: str = option(
        MISSING,
        f"a generated data set ({', '.join(GENERATED)}), gcb-easy or gcb-hard, a TU data set by "
        "name, or module:name, a list of PyG's Data or a function that returns one (default: "
        "twin-colors)",
    )
    preset: str = option(MISSING, "default: by data set", choices=list(BENCHMARK_PRESETS))
    method: str = option(
        "simpool",
        "names of methods, tgp:NAME, or module:Class, a pooling layer of your own (default: "
        "simmatch and nopool for twin-colors and twins, else simpool)",
        nargs="+",
    )
    #: The folds of 'tested' have test graphs. The study also has 'nested-selection' and 'nested',
    #: and 'published', the split of the data set, where `fold` is the seed of the weights.
    protocol: str = option(
        "paper", "default: tested for the preset narrow, else paper", choices=("paper", "tested")
    )
    fold: int = option(0, "this fold only, counted from 0 (default: all)", type=number(int, 0))
    seed: int = option(0, "of all draws (default: 0)", type=number(int, 0, 2**32 - 1))
    cleaned: bool = option(True, "the TU data set without isomorphic graphs", action="store_true")
    node_features: Optional[str] = option(
        None, "default: all that the data set has", choices=NODE_FEATURES
    )
    width: float = option(1.0, "factor of the layer widths", type=number(float, 0, above=True))
    features: str = option(
        "structural",
        "input of the assignments",
        ("simpool",),
        choices=("structural", "node", "both"),
    )
    gru: bool = option(
        False, "a GRU reads whole rows of the similarities C", ("simpool",), action="store_true"
    )
    k: int = option(
        UNSET, "number of similar nodes per node", (*_ORDERED, *SIMILAR), type=number(int, 1)
    )
    p: int = option(
        UNSET, "power of the adjacency matrix", (*_ORDERED, *SIMILAR), type=number(int, 1)
    )
    lam: float = option(
        UNSET, "weight of added self-loops", (*_ORDERED, *SIMILAR), type=number(float, 0)
    )
    alpha: float = option(
        UNSET, "weight of the similarity in the features", _ORDERED, type=number(float, 0, 1)
    )
    entropy_scaler: float = option(
        UNSET, "factor of the entropy loss L_E", ("simpool",), type=number(float, 0)
    )
    cluster_scaler: float = option(
        UNSET, "factor of the cluster loss L_C", ("simpool",), type=number(float, 0)
    )
    epochs: int = option(UNSET, "number of epochs", type=number(int, 1))
    batch_size: int = option(UNSET, "graphs in a batch", type=number(int, 1))
    lr: float = option(UNSET, "learning rate of Adam", type=number(float, 0, above=True))
    #: 'given' is the numbering of the data set.
    order: str = option(
        "given",
        "numbering of the nodes for structural features (default: fiedler for generated graphs but "
        "motifs-by-ring, else given)",
        _ORDERED,
        choices=("given", "rcm", "bfs", "fiedler"),
    )
    folds: int = option(
        FOLDS, "number of folds (default: 3 for generated data, else 10)", type=number(int, 2)
    )
    #: Protocol 'nested': the checksum of the splits, the choice of settings, and the repetition.
    splits: Optional[str] = None
    config: Optional[str] = None
    repetition: int = 0
    #: Whether the class probabilities of the test graphs are stored.
    probabilities: bool = False
    dropout: float = option(
        0.0, "before the last layer", (*_LEVELS, "baseline"), type=number(float, 0, 1)
    )
    weight_decay: float = option(0.0, "weight decay of Adam", type=number(float, 0))
    entropy_warmup: float = option(
        0.0,
        "share of the epochs in which the factor of L_E grows from 0",
        _LEVELS,
        type=number(float, 0, 1),
    )
    readout: str = option(
        "last", "levels that the last layer reads", _LEVELS, choices=("last", "all")
    )
    similar: str = option(
        "cosine",
        "similar nodes, or controls in their place (default: cosine and neighbors for the default "
        "method, else cosine)",
        SIMILAR,
        nargs="+",
        choices=("cosine", "constant", "shuffled", "counts", "neighbors"),
    )

    def filled(self) -> "Run":
        """Returns the run with unset settings filled from its preset.

        Settings that the method does not read get their defaults.
        """
        preset = BENCHMARK_PRESETS[self.preset]
        unset = {f.name for f in fields(self) if getattr(self, f.name) is UNSET}
        run = replace(self, **{n: getattr(preset, n) for n in unset if hasattr(preset, n)})
        unread: dict[str, Any] = {
            f.name: f.default
            for f in fields(self)
            if run.method not in (f.metadata.get("methods") or (run.method,))
        }
        return replace(run, **unread)

    @property
    def title(self) -> str:
        """The run in a few words."""
        words = [self.dataset, self.protocol, self.method, f"fold {self.fold}", self.config]
        words += [f"repetition {self.repetition}"] if self.repetition else []
        return ", ".join(filter(None, words))

    @property
    def architecture(self) -> Any:
        """The layer widths of the network."""
        return BENCHMARK_PRESETS[self.preset].architecture.scaled(self.width)

    @property
    def norm(self) -> bool:
        """Whether batch norm follows the first GNN and the last sum, and an MLP is the last layer.

        On regular graphs, the running averages of a training are misleading. They are computed
        again before an evaluation.
        """
        return self.preset == "narrow"


@dataclass
class Drawing:
    """A validation graph with the clusters of level 0."""

    y: int
    edges: list[list[int]]
    clusters: list[int]
    #: The labels of the nodes, which the oldest stored runs do not have.
    labels: Optional[list[int]] = None


@dataclass
class Result:
    """The outcome of a run. A run that diverged has an `error` and no accuracies."""

    run: Run
    #: The description of the data set. `sizes` holds the number of graphs of each part.
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
    #: The first epoch with the best accuracy, counted from 1.
    best_epoch: int = 0
    seconds_per_epoch: float = 0.0
    #: One value for each epoch. The keys are `loss`, `train_accuracy`, `val_accuracy`, and
    #: `entropy_loss_0`, `cluster_loss_0`, `clusters_0`, ... for each level of soft assignments.
    history: dict[str, list[float]] = field(default_factory=dict)
    test_accuracy: Optional[float] = None
    test_labels: Optional[list[int]] = None
    test_probabilities: Optional[list[list[float]]] = None
    #: Measures of the clusters of level 0, for methods that partition the nodes.
    locality: Optional[dict[str, Optional[float]]] = None
    num_clusters: Optional[int] = None
    drawn: Optional[list[Drawing]] = None
