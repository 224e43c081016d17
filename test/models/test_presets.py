"""The presets have the values of the paper's tables."""

import dataclasses

import pytest
import torch

from torch_geometric_simpool.models import PRESETS, SimPoolNet

SETTINGS = {
    # The columns are p, k, alpha, lam, scaler_E, scaler_C and epochs.
    "enzymes": (1, 12, 1.0, 0, 1.0, 1.0, 100),
    "dd": (1, 25, 1.0, 0, 0.4, 1.0, 230),
    "enzymes-10fold": (1, 15, 0.8, 0, 1.0, 1.0, 100),
    "dd-10fold": (1, 32, 0.8, 0, 0.4, 1.0, 60),
}
NAMES = ("p", "k", "alpha", "lam", "entropy_scaler", "cluster_scaler", "epochs")


def shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in module.state_dict().items() if k.endswith("weight")}


def test_settings() -> None:
    found = {name: tuple(getattr(p, n) for n in NAMES) for name, p in PRESETS.items()}
    assert found == SETTINGS
    assert all((p.lr, p.batch_size) == (1e-4, 20) for p in PRESETS.values())
    for name, (p, k, alpha, lam, *_) in SETTINGS.items():
        net = SimPoolNet.from_preset(name, 3, 6, 0.01)
        topk = net.transform().topk
        assert (topk.p, net.transform().k, topk.lam) == (p, k, lam)
        assert net.transform().alpha == alpha
        assert net.transform().order is None


def test_parameters_for_enzymes() -> None:
    """A GMN layer reads both ends of an edge; `f_node` reads a node and its messages."""
    assert shapes(SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6)) == {
        "embed0.encoder.lin_node.weight": (512, 3),
        "embed0.conv1.lin_message.weight": (512, 512 + 512),
        "embed0.conv1.lin_node.weight": (512, 512 + 512),
        "embed0.conv2.lin_message.weight": (512, 512 + 512),
        "embed0.conv2.lin_node.weight": (256, 512 + 512),
        "assign0.encoder.lin_node.weight": (512, 12),
        "assign0.conv1.lin_message.weight": (512, 512 + 512),
        "assign0.conv1.lin_node.weight": (512, 512 + 512),
        "assign0.conv2.lin_message.weight": (512, 512 + 512),
        "assign0.conv2.lin_node.weight": (8, 512 + 512),
        "embed1.lin.weight": (512, 256),
        "assign1.lins.0.weight": (256, 8),
        "assign1.lins.1.weight": (4, 256),
        "embed2.lin.weight": (1024, 512),
        "lin.weight": (6, 1024),
    }


def test_parameters_for_dd() -> None:
    with torch.device("meta"):
        net = SimPoolNet.from_preset("dd-10fold", in_channels=89, num_classes=2)
    assert shapes(net) == {
        "embed0.encoder.lin_node.weight": (1024, 89),
        "embed0.conv1.lin_message.weight": (1024, 2048),
        "embed0.conv1.lin_node.weight": (1024, 2048),
        "embed0.conv2.lin_message.weight": (1024, 2048),
        "embed0.conv2.lin_node.weight": (1024, 2048),
        "assign0.encoder.lin_node.weight": (1024, 32),
        "assign0.conv1.lin_message.weight": (1024, 2048),
        "assign0.conv1.lin_node.weight": (1024, 2048),
        "assign0.conv2.lin_message.weight": (1024, 2048),
        "assign0.conv2.lin_node.weight": (32, 2048),
        "embed1.lin.weight": (2048, 1024),
        "assign1.lins.0.weight": (2048, 32),
        "assign1.lins.1.weight": (8, 2048),
        "embed2.lin.weight": (4096, 2048),
        "lin.weight": (2, 4096),
    }


def test_scaling_leaves_the_numbers_of_clusters() -> None:
    architecture = PRESETS["dd"].architecture
    assert architecture.scaled(1.0) == architecture
    scaled, before = (dataclasses.asdict(a) for a in (architecture.scaled(0.125), architecture))
    assert scaled.pop("clusters") == before.pop("clusters")
    for name, width in before.items():
        expected = tuple(w // 8 for w in width) if isinstance(width, tuple) else width // 8
        assert scaled[name] == expected
    assert PRESETS["enzymes"].architecture.scaled(1e-6).hidden == (1, 1)


WRONG = [
    {"width": 0.0},
    {"width": float("nan")},
    {"width": "wide"},
    {"preset": "mutag"},
    *({"clusters": c} for c in (8, (8,), (8, 4, 2), "84", (0, 4), (8, 2.5))),
]


def test_wrong_arguments() -> None:
    for changed in WRONG:
        arguments = {"preset": "enzymes", "in_channels": 3, "num_classes": 2, "width": 0.02}
        with pytest.raises((TypeError, ValueError), match=f"`{next(iter(changed))}`"):
            SimPoolNet.from_preset(**{**arguments, **changed})
