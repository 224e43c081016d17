"""The settings of the paper: layer widths and training, by data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_geometric_simpool.utils.checks import check_int, check_real


@dataclass(frozen=True)
class Architecture:
    """The widths of :class:`SimPoolNet`, in the notation of the paper.

    Attributes:
        encoder (int): Width of the encoders of Z0 and S0.
        hidden (tuple of int): Widths `(f_message, f_node)` of the first propagation of Z0 and S0.
        embedding (tuple of int): Widths `(f_message, f_node)` of the last propagation of Z0.
        message (int): Width `f_message` of the last propagation of S0, whose `f_node` has
            `clusters[0]` units.
        gcn (tuple of int): Widths of Z1 and Z2.
        assignment (int): Width of the hidden layer of S1.
        clusters (tuple of int): Numbers of clusters of the two levels.

    Source: table 'architecture' of Shulman (2020).
    """

    encoder: int
    hidden: tuple[int, int]
    embedding: tuple[int, int]
    message: int
    gcn: tuple[int, int]
    assignment: int
    clusters: tuple[int, int]

    def scaled(self, width: float) -> "Architecture":
        """Returns the architecture with widths times `width`, and the same numbers of clusters."""
        if check_real("width", width, 0.0) == 0:
            raise ValueError("`width` must be positive, got 0")

        def scale(channels: int) -> int:
            return max(1, round(width * channels))

        return Architecture(
            scale(self.encoder),
            (scale(self.hidden[0]), scale(self.hidden[1])),
            (scale(self.embedding[0]), scale(self.embedding[1])),
            scale(self.message),
            (scale(self.gcn[0]), scale(self.gcn[1])),
            scale(self.assignment),
            self.clusters,
        )

    def with_clusters(self, clusters: Sequence[int]) -> "Architecture":
        """Returns the architecture with other numbers of clusters, one per level."""
        if not isinstance(clusters, (tuple, list)) or len(clusters) != 2:
            raise ValueError(
                f"`clusters` must be two numbers of clusters, one per level, got {clusters!r}"
            )
        first, second = (check_int("clusters", number, 1) for number in clusters)
        return replace(self, clusters=(first, second))


@dataclass(frozen=True)
class Preset:
    """The settings of an experiment: architecture, structural features and training.

    Attributes:
        architecture (Architecture): The widths of :class:`SimPoolNet`.
        k (int): Number of similar nodes per node.
        p (int): Power of the adjacency matrix. (default: :obj:`1`)
        alpha (float): Weight of the similarity in :func:`map_indices`. (default: :obj:`1.0`)
        lam (float): Weight of the added self-loops. (default: :obj:`0.0`)
        entropy_scaler (float): Factor of the entropy loss. (default: :obj:`1.0`)
        cluster_scaler (float): Factor of the cluster loss. (default: :obj:`1.0`)
        epochs (int): Number of epochs. (default: :obj:`100`)
        lr (float): Learning rate of Adam. (default: :obj:`1e-4`)
        batch_size (int): Graphs per batch, which the paper does not state. (default: :obj:`20`)

    Source: sections 'Model architecture' and 'Performance study' of Shulman (2020).
    """

    architecture: Architecture
    k: int
    p: int = 1
    alpha: float = 1.0
    lam: float = 0.0
    entropy_scaler: float = 1.0
    cluster_scaler: float = 1.0
    epochs: int = 100
    lr: float = 1e-4
    batch_size: int = 20


_ENZYMES = Preset(
    Architecture(
        encoder=512,
        hidden=(512, 512),
        embedding=(512, 256),
        message=512,
        gcn=(512, 1024),
        assignment=256,
        clusters=(8, 4),
    ),
    k=12,
)
_DD = Preset(
    Architecture(
        encoder=1024,
        hidden=(1024, 1024),
        embedding=(1024, 1024),
        message=1024,
        gcn=(2048, 4096),
        assignment=2048,
        clusters=(32, 8),
    ),
    k=25,
    entropy_scaler=0.4,
    epochs=230,
)

#: The presets of the paper by name. `'enzymes'` and `'dd'` have the default settings of a data set.
#: `'enzymes-10fold'` and `'dd-10fold'` have the settings of the performance study in 10 folds.
PRESETS: dict[str, Preset] = {
    "enzymes": _ENZYMES,
    "dd": _DD,
    "enzymes-10fold": replace(_ENZYMES, k=15, alpha=0.8),
    "dd-10fold": replace(_DD, k=32, alpha=0.8, epochs=60),
}
