"""What tgp checks of every pooler, on the two of the package."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import DenseGCNConv, GCNConv
from torch_geometric.utils import to_dense_adj, to_dense_batch, to_torch_coo_tensor
from torch_geometric.utils import to_torch_csr_tensor as to_csr

from helpers.graphs import draw_all, union

poolers: Any = pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
registered: Any = pytest.importorskip("torch_geometric_simpool.tgp")
cheatsheet: Any = pytest.importorskip("tgp.utils.cheatsheet")
src: Any = pytest.importorskip("tgp.src")

NAMES = ["sim", "sim_u", "simmatch"]
FEATURES = 4
#: What tgp's own loops pass to every pooler; each takes what it knows.
PARAMS = {
    "in_channels": FEATURES,
    "ratio": 0.5,
    "k": 5,
    "cached": False,
    "lift": "precomputed",
    "s_inv_op": "transpose",
    "lift_red_op": "mean",
    "loss_coeff": 1.0,
    "remove_self_loops": True,
    "scorer": "degree",
    "reduce": "sum",
}


@pytest.fixture(autouse=True)
def no_extra_poolers() -> Iterator[None]:
    known = dict(poolers.pooler_map)
    yield
    assert poolers.pooler_map == known


@pytest.fixture
def batch() -> Batch:
    graph, of_node = union([graph for graph in draw_all(2) if graph.num_nodes > 0])
    assert graph.weights is not None
    weight = graph.edge_weight(torch.float32)
    x = torch.randn(graph.num_nodes, FEATURES)
    return Batch(x=x, edge_index=graph.edge_index, edge_weight=weight, batch=of_node)


def make(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    return poolers.get_pooler(name, **(PARAMS | settings)).eval()


def pool(pooler: Any, data: Data) -> Any:
    return pooler(x=data.x, adj=data.edge_index, edge_weight=data.edge_weight, batch=data.batch)


def tensors(out: Any) -> list[Tensor]:
    found = [out.x, out.edge_index, out.edge_weight, out.batch, *(out.loss or {}).values()]
    return [tensor for tensor in found if tensor is not None]


def test_names() -> None:
    assert type(make("sim")) is registered.SimPooling
    assert type(make("SIM_U")) is registered.SimPooling
    assert type(make("simmatch")) is registered.SimMatch
    assert make("sim").batched
    assert not make("sim_u").batched


def test_missing_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"Missing required argument\(s\).*'sim'.*k"):
        poolers.get_pooler("sim", in_channels=3)
    poolers.get_pooler("simmatch")


@pytest.mark.parametrize("cls", [registered.SimPooling, registered.SimMatch])
def test_get_pooler_passes_every_argument(cls: Any) -> None:
    signature = cls.get_signature()
    names = cls.__init__.__code__.co_varnames[1 : cls.__init__.__code__.co_argcount]
    assert signature.args == list(names)
    assert cls.__init__.__code__.co_kwonlyargcount == 0
    assert not signature.has_kwargs
    assert {"x", "adj", "edge_weight", "so", "batch", "lifting"} <= {
        *cls.get_forward_signature().args
    }


def test_settings_arrive() -> None:
    pooler = make("sim", num_similar=7, sparse_output=True, num_neighbors=2, threshold=0.25)
    assert pooler.selector.mlp.in_channels == pooler.selector.num_similar == 7
    assert (pooler.connector.num_neighbors, pooler.connector.threshold) == (2, 0.25)
    pooler = make("simmatch", num_similar=7, p=2, measure="jaccard")
    assert (pooler.selector.num_similar, pooler.selector.p) == (7, 2)
    assert pooler.selector.measure == "jaccard"


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_forward_and_lift(batch: Batch, name: str, sparse_output: bool) -> None:
    batch.edge_weight = batch.edge_weight.abs()  # GCNConv takes the root of degrees
    pooler = make(name, sparse_output=sparse_output)
    out = pool(pooler, batch)
    assert isinstance(out, src.PoolingOutput)
    assert out.edge_weight is None or out.edge_weight.numel() == out.edge_index.size(1)
    dense = pooler.is_dense and not sparse_output
    conv: Any = DenseGCNConv(FEATURES, 3) if dense else GCNConv(FEATURES, 3)
    given = (out.edge_index,) if dense else (out.edge_index, out.edge_weight)
    x = conv(out.x, *given)
    assert x.isfinite().all()
    lifted = pooler(x=x, so=out.so, lifting=True)
    assert lifted.shape[-2:] == (out.so.num_nodes, 3)
    assert lifted.isfinite().all()
    if not dense:
        assert out.batch.numel() == out.x.size(0)
        assert (out.batch[out.edge_index[0]] == out.batch[out.edge_index[1]]).all()


@pytest.mark.parametrize("name", NAMES)
def test_properties(name: str) -> None:
    pooler, dense = make(name), name != "simmatch"
    assert pooler.is_dense is dense
    assert pooler.is_sparse is not dense
    assert pooler.is_trainable is dense
    assert pooler.has_loss is dense
    assert pooler.is_precoarsenable is not dense
    assert (pooler.data_transforms() is None) is not dense


def test_assignments_are_expressive(batch: Batch) -> None:
    assert all(pool(make(name), batch).so.is_expressive for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_repr(name: str) -> None:
    pooler = make(name)
    text = repr(pooler)
    assert text.startswith(type(pooler).__name__)
    for part in ("selector", "reducer", "lifter", "connector"):
        assert repr(getattr(pooler, part)) in text
    assert "\n\tsparse_output=" not in text
    assert ("batched=" in text) is pooler.is_dense
    assert "num_similar=12" in text


@pytest.mark.parametrize("name", NAMES)
def test_reset_parameters(batch: Batch, name: str) -> None:
    pooler = make(name)
    before = [parameter.clone() for parameter in pooler.parameters()]
    pooler.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, pooler.parameters()))
    pooler.clear_cache()
    assert isinstance(pool(pooler, batch), src.PoolingOutput)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(batch: Batch, name: str, tmp_path: Path) -> None:
    pooler = make(name)
    expected = tensors(pool(pooler, batch))
    torch.save(pooler.state_dict(), tmp_path / "state.pt")
    torch.save(pooler, tmp_path / "pooler.pt")
    fresh = make(name)
    fresh.reset_parameters()
    fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
    whole = torch.load(tmp_path / "pooler.pt", weights_only=False)
    for loaded in (fresh, whole):
        found = tensors(pool(loaded, batch))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("adj_transpose", [False, True])
@pytest.mark.parametrize("sparse_output", [False, True])
def test_batched_is_unbatched(batch: Batch, sparse_output: bool, adj_transpose: bool) -> None:
    settings = {"sparse_output": sparse_output, "adj_transpose": adj_transpose}
    dense, sparse = make("sim", **settings), make("sim_u", **settings)
    sparse.load_state_dict(dense.state_dict())
    a, b = pool(dense, batch), pool(sparse, batch)
    torch.testing.assert_close(a.so.s[a.so.in_mask], b.so.s)
    torch.testing.assert_close(a.x, b.x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(a.loss, b.loss)
    torch.testing.assert_close(a.mask, b.mask)
    if sparse_output:
        assert torch.equal(a.batch, b.batch)
        sizes = (5, int(batch.batch.max()) + 1)
        a, b = (to_dense_adj(o.edge_index, o.batch, o.edge_weight, *sizes) for o in (a, b))
    else:
        a, b = a.edge_index, b.edge_index
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_matrices_as_input(batch: Batch, name: str) -> None:
    """A sparse matrix in COO or CSR form, and a `SparseTensor`, are the same graph."""
    size = batch.x.size(0)
    ones = {"edge_index": batch.edge_index, "edge_attr": batch.edge_weight, "size": size}
    uncoalesced = torch.sparse_coo_tensor(batch.edge_index, batch.edge_weight, (size, size))
    forms = [to_torch_coo_tensor(**ones), to_csr(**ones), uncoalesced]
    try:
        from torch_sparse import SparseTensor

        forms.append(SparseTensor.from_torch_sparse_coo_tensor(forms[0]))
    except ImportError:
        pass
    pooler = make(name)
    expected = pool(pooler, batch)
    for adj in forms:
        out = pooler(x=batch.x, adj=adj, batch=batch.batch)
        torch.testing.assert_close(out.x, expected.x, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(out.loss, expected.loss)
        sparse = make(name, sparse_output=True)(x=batch.x, adj=adj, batch=batch.batch)
        if name == "sim":
            assert sparse.edge_weight is not None  # edges
        elif isinstance(adj, Tensor):
            assert sparse.edge_index.layout == torch.sparse_coo
        else:
            assert type(sparse.edge_index) is type(adj)


@pytest.mark.skipif("not __import__('importlib').util.find_spec('torch_sparse')")
@pytest.mark.parametrize("name", NAMES)
def test_preprocessed_sparse_tensor(batch: Batch, name: str) -> None:
    """As tgp's loops do: the pooler's own preprocessing first."""
    from torch_sparse import SparseTensor

    adj = SparseTensor.from_edge_index(batch.edge_index, batch.edge_weight)
    pooler = make(name)
    x, mask = batch.x, None
    if name == "sim":
        x, adj, mask = pooler.preprocessing(x=x, edge_index=adj, batch=batch.batch)
    out = pooler(x=x, adj=adj, batch=batch.batch, mask=mask)
    assert out.x.isfinite().all()


def test_preprocessing_is_what_forward_does(batch: Batch) -> None:
    pooler = make("sim")
    graph = {"edge_index": batch.edge_index, "edge_weight": batch.edge_weight}
    x, adj, mask = pooler.preprocessing(x=batch.x, batch=batch.batch, **graph)
    found, expected = pooler(x=x, adj=adj, mask=mask), pool(pooler, batch)
    torch.testing.assert_close(found.edge_index, expected.edge_index)
    torch.testing.assert_close(found.so.s, expected.so.s)


def test_operators_one_by_one(batch: Batch) -> None:
    """select, reduce, connect and lift are what forward is made of."""
    graph = {"edge_index": batch.edge_index, "edge_weight": batch.edge_weight}
    for name in ("sim_u", "simmatch"):
        pooler = make(name)
        out = pool(pooler, batch)
        so = pooler.select(x=batch.x, batch=batch.batch, num_nodes=batch.x.size(0), **graph)
        x, of_cluster = pooler.reduce(x=batch.x, so=so, batch=batch.batch)
        adj, _ = pooler.connect(so=so, batch=batch.batch, batch_pooled=of_cluster, **graph)
        torch.testing.assert_close(x.view_as(out.x), out.x)
        torch.testing.assert_close(adj, out.edge_index)
        lifted = pooler.lift(x_pool=out.x, so=so)
        torch.testing.assert_close(lifted, pooler(x=out.x, so=out.so, lifting=True))


def test_cached_preprocessing() -> None:
    x, edge_index = torch.randn(4, FEATURES), torch.tensor([[0, 1, 2], [1, 2, 3]])
    pooler = make("sim", cache_preprocessing=True)
    first = pooler(x=x, adj=edge_index)
    assert pooler.preprocessing_cache is not None
    torch.testing.assert_close(pooler(x=x, adj=edge_index).x, first.x)
    pooler.clear_cache()
    assert pooler.preprocessing_cache is None


def test_readout(batch: Batch) -> None:
    """tgp's readout takes what the poolers return."""
    readout: Any = pytest.importorskip("tgp.reduce").GlobalReduce("sum")
    for name in NAMES:
        for sparse_output in (False, True):
            out = pool(make(name, sparse_output=sparse_output), batch)
            total = readout(out.x, batch=out.batch)
            expected, _ = to_dense_batch(batch.x, batch.batch)
            torch.testing.assert_close(total, expected.sum(dim=1), rtol=1e-4, atol=1e-4)


def test_cheatsheet() -> None:
    """tgp's table of poolers, which finds the paper in the docstring."""
    rows = {row[0]: row[1:] for row in cheatsheet.get_pooler_cheatsheet()}
    paper = ["https://arxiv.org/abs/2006.02244"]
    assert rows["sim"] == ("SimPooling", False, True, True, paper)
    assert rows["simmatch"] == ("SimMatch", True, False, False, [])
