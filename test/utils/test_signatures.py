"""Wrong values of every public parameter, drawn by its annotation.

A parameter is found by the signature, so a new one is tested by itself: the test fails until it
is checked. The error is a `TypeError` or a `ValueError` and names the parameter.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import pytest
from torch import Tensor

import torch_geometric_simpool as simpool
from helpers.signatures import CASES, ROWS, parameters, wrong_calls
from torch_geometric_simpool import analysis, models


def draws() -> Iterator[Any]:
    for key, name, kind, value in wrong_calls():
        yield pytest.param(key, name, value, id=f"{key}-{name}-{kind}")


def test_all_cases_are_right() -> None:
    for key, case in CASES.items():
        try:
            case.call(**case.arguments)
        except Exception as error:
            pytest.fail(f"{key}: {error!r}")


def test_every_public_name_has_a_case() -> None:
    names = {key.split()[0].split(".")[0] for key in CASES}
    public = {*simpool.__all__, *models.__all__, *getattr(analysis, "__all__", ())}
    results_and_data = {"TopKEstimate", "SimPoolNetOutput", "PRESETS", "Preset", "Architecture"}
    assert public - results_and_data <= names


def methods() -> Iterator[str]:
    """The public methods of public classes that take arguments, but those of PyTorch and PyG."""
    for module in (simpool, models, analysis.diagnostics):
        for name, made in vars(module).items():
            ours = inspect.isclass(made) and made.__module__.startswith(simpool.__name__)
            if not ours or name.startswith("_"):
                continue
            for of, found in inspect.getmembers(made):
                function = inspect.unwrap(getattr(found, "__func__", found))
                if of.startswith("_") or not inspect.isfunction(function):
                    continue
                if not function.__module__.startswith(simpool.__name__):
                    continue
                if set(inspect.signature(function).parameters) - {"self", "cls"}:
                    yield f"{name}.{of}"


def test_every_public_method_has_a_case() -> None:
    names = {key.split()[0] for key in CASES}
    of_the_package = {  # what its own classes call, with arguments that are checked
        "Architecture.scaled",
        "Architecture.with_clusters",
        "GMN.hidden",
        "GMNConv.collect",
        "GMNConv.forward_labels",
        "GMNConv.message",
        "GMNConv.pooled",
        "GMNConv.propagate",
        "StructuralSimilarity.features",
    }
    assert set(methods()) - names == of_the_package


def test_every_tensor_has_a_right_value() -> None:
    """Otherwise shapes, types and devices of it are not drawn."""
    given: dict[tuple[str, str], bool] = {}
    for key, case in CASES.items():
        for name, hint in parameters(case):
            if Tensor in (get_args(hint) or (hint,)):
                tensor = isinstance(case.arguments.get(name), Tensor)
                of = key.split()[0], name
                given[of] = given.get(of, False) or tensor
    missing = {of for of, found in given.items() if not found}
    assert missing == {
        ("SimPool.forward", "node_attr"),
        ("SimPoolNet.forward", "node_attr"),
        # Those of `topk_similarity`.
        *((name, ids) for name in ("estimate_topk", "similarity_graph") for ids in ROWS),
        ("SimilarityIndex", "candidates"),
        ("cluster_loss", "mask"),  # that of `entropy_loss`
        ("GMN.forward", "num_nodes"),  # that of `GMNEncoder.forward`
    }


@pytest.mark.parametrize(("key", "name", "value"), draws())
def test_a_wrong_value_is_an_error_that_names_the_parameter(
    key: str, name: str, value: Any
) -> None:
    case = CASES[key]
    call = partial(case.call, **{**case.arguments, name: value})
    with pytest.raises((TypeError, ValueError)) as info:
        call()
    assert f"`{name}`" in str(info.value), info.value
    assert "got" in str(info.value)
