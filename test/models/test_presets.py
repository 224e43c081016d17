"""The tables of the paper, written down once more."""

import dataclasses

import pytest

from torch_geometric_simpool.models import PRESETS, SimPoolNet

SETTINGS = {
    # p, k, alpha, lam, scaler_E, scaler_C, epochs
    "enzymes": (1, 12, 1.0, 0, 1.0, 1.0, 100),
    "dd": (1, 25, 1.0, 0, 0.4, 1.0, 230),
    "enzymes-10fold": (1, 15, 0.8, 0, 1.0, 1.0, 100),
    "dd-10fold": (1, 32, 0.8, 0, 0.4, 1.0, 60),
}


def test_there_is_no_other() -> None:
    assert set(PRESETS) == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name: str) -> None:
    preset = PRESETS[name]
    assert SETTINGS[name] == (
        preset.p,
        preset.k,
        preset.alpha,
        preset.lam,
        preset.entropy_scaler,
        preset.cluster_scaler,
        preset.epochs,
    )
    assert preset.lr == 1e-4
    assert preset.batch_size == 20


@pytest.mark.parametrize("name", SETTINGS)
def test_widths(name: str) -> None:
    a = PRESETS[name].architecture
    if name.startswith("enzymes"):
        assert (a.encoder, a.hidden, a.embedding) == (512, (512, 512), (512, 256))
        assert (a.message, a.clusters) == (512, (8, 4))
        assert (a.gcn, a.assignment) == ((512, 1024), 256)
    else:
        assert (a.encoder, a.hidden, a.embedding) == (1024, (1024, 1024), (1024, 1024))
        assert (a.message, a.clusters) == (1024, (32, 8))
        assert (a.gcn, a.assignment) == ((2048, 4096), 2048)


def test_scaling_leaves_the_numbers_of_clusters() -> None:
    architecture = PRESETS["dd"].architecture
    assert architecture.scaled(1.0) == architecture
    scaled = architecture.scaled(0.125)
    assert scaled.clusters == architecture.clusters
    for field in dataclasses.fields(architecture):
        if field.name == "clusters":
            continue
        before, after = getattr(architecture, field.name), getattr(scaled, field.name)
        if isinstance(before, tuple):
            assert after == tuple(width // 8 for width in before)
        else:
            assert after == before // 8


def test_no_layer_vanishes() -> None:
    scaled = PRESETS["enzymes"].architecture.scaled(1e-6)
    assert (scaled.encoder, scaled.hidden, scaled.gcn) == (1, (1, 1), (1, 1))


def test_an_unknown_preset_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"`preset` must be one of 'enzymes'.*got 'mutag'") as info:
        SimPoolNet.from_preset("mutag", 3, 2)
    assert all(repr(name) in str(info.value) for name in SETTINGS)


@pytest.mark.parametrize("width", [0, 0.0, -1.0, float("nan"), float("inf")])
def test_widths_that_are_none(width: float) -> None:
    with pytest.raises(ValueError, match=r"`width` must be .*got"):
        SimPoolNet.from_preset("enzymes", 3, 2, width)
    with pytest.raises(TypeError, match=r"`width` must be .*got 'wide'"):
        SimPoolNet.from_preset("enzymes", 3, 2, "wide")  # type: ignore[arg-type]
