"""The names of what is stored after every epoch."""

from harness.methods.registry import ASSIGNING

LEVELS = (0, 1)
#: What is stored of each level.
OF_LEVEL = ("entropy_loss", "cluster_loss", "clusters")
CURVES = ("loss", "train_accuracy", "val_accuracy")
CURVES_OF_LEVELS = tuple(f"{name}_{level}" for level in LEVELS for name in OF_LEVEL)


def curves_of(method: str) -> tuple[str, ...]:
    """The curves that every run of a method has."""
    return (*CURVES, *CURVES_OF_LEVELS) if method in ASSIGNING else CURVES
