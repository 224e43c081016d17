"""The presets of the benchmark, by name and by data set."""

from dataclasses import replace

from harness.data.load import GENERATED
from torch_geometric_simpool.models import PRESETS

#: The presets of the paper, and one for the generated data sets, narrow enough for two cores.
BENCHMARK_PRESETS = {
    **PRESETS,
    "motifs": replace(
        PRESETS["enzymes-10fold"],
        architecture=PRESETS["enzymes-10fold"].architecture.scaled(0.25),
        lr=3e-4,
        epochs=60,
    ),
}
#: The default preset of a data set; others have that of ENZYMES.
PRESET_OF = {**dict.fromkeys(GENERATED, "motifs"), "DD": "dd-10fold"}
DEFAULT_PRESET = "enzymes-10fold"

#: Settings that only SimPool reads.
ONLY_SIMPOOL = (
    "features",
    "gru",
    "k",
    "p",
    "lam",
    "alpha",
    "entropy_scaler",
    "cluster_scaler",
)
#: DiffPool, and with `normalize=False`.
DIFFPOOL = ("diffpool", "diffpool-unnormalized")
#: Settings that not all methods read, and the methods that do.
READERS = {
    **dict.fromkeys((*ONLY_SIMPOOL, "order"), ("simpool",)),
    "dropout": ("simpool", *DIFFPOOL, "baseline"),
    "readout": ("simpool", *DIFFPOOL),
    "entropy_warmup": ("simpool", *DIFFPOOL),
}
