"""Properties that tgp requires of every pooler."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch
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
#: The arguments that tgp's training loops pass to every pooler. A pooler ignores unknown ones.
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
}


@pytest.fixture
def batch() -> Batch:
    graph, batch = union([graph for graph in draw_all(2) if graph.num_nodes > 0])
    weight = graph.edge_weight(torch.float32)
    assert weight is not None
    x = torch.randn(graph.num_nodes, FEATURES)
    return Batch(x=x, edge_index=graph.edge_index, edge_weight=weight.abs(), batch=batch)


def make(name: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    return poolers.get_pooler(name, **(PARAMS | settings)).eval()


def pool(pooler: Any, data: Batch) -> Any:
    return pooler(x=data.x, adj=data.edge_index, edge_weight=data.edge_weight, batch=data.batch)


def tensors(out: Any) -> list[Tensor]:
    values = [out.x, out.edge_index, out.edge_weight, out.batch, *(out.loss or {}).values()]
    return [value for value in values if value is not None]


def test_get_pooler() -> None:
    known = {"num_similar": 7, "p": 2, "measure": "jaccard", "max_degree": 9}
    sim = make("SIM", sparse_output=True, alpha=0.5, order="rcm", loop=False, **known)
    assert type(sim) is registered.SimPooling
    assert sim.connector.sparse_output
    for part in ("k=7", "alpha=0.5", "order='rcm'", "p=2", "'jaccard'", "loop=False"):
        assert part in repr(sim.selector.transform)
    # All settings of the transform are accepted.
    others = {"weight_attr": None, "device": "cpu", "attr": "features"}
    for name, value in others.items():
        assert f"{name}={value!r}" in repr(make("sim", **{name: value}).data_transforms())
    with pytest.raises(TypeError, match="loop"):
        make("simmatch", loop=True)
    match = make("simmatch", **known)
    assert type(match) is registered.SimMatch
    assert match.selector.num_similar == 7
    assert match.selector.settings == {"p": 2, "measure": "jaccard", "max_degree": 9}
    assert make("sim").batched
    assert not make("sim_u").batched
    with pytest.raises(TypeError, match=r"Missing required argument\(s\).*'sim'.*k"):
        poolers.get_pooler("sim", in_channels=3)


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_forward_and_lift(batch: Batch, name: str, sparse_output: bool) -> None:
    pooler = make(name, sparse_output=sparse_output)
    out = pool(pooler, batch)
    assert isinstance(out, src.PoolingOutput)
    assert out.so.is_expressive
    dense = pooler.is_dense and not sparse_output
    conv: Any = (DenseGCNConv if dense else GCNConv)(FEATURES, 3)
    x = conv(out.x, out.edge_index) if dense else conv(out.x, out.edge_index, out.edge_weight)
    lifted = pooler(x=x, so=out.so, lifting=True)
    assert lifted.shape[-2:] == (out.so.num_nodes, 3)
    assert lifted.isfinite().all()
    if not dense:
        assert out.batch.numel() == out.x.size(0)
        assert (out.batch[out.edge_index[0]] == out.batch[out.edge_index[1]]).all()
    total = pytest.importorskip("tgp.reduce").GlobalReduce("sum")(out.x, batch=out.batch)
    expected, _ = to_dense_batch(batch.x, batch.batch)
    torch.testing.assert_close(total, expected.sum(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_properties(name: str) -> None:
    pooler, dense = make(name), name != "simmatch"
    assert pooler.is_dense is pooler.is_trainable is pooler.has_loss is dense
    assert pooler.is_sparse is pooler.is_precoarsenable is not dense
    assert (pooler.data_transforms() is None) is not dense
    for part in ("selector", "reducer", "lifter", "connector"):
        assert repr(getattr(pooler, part)) in repr(pooler)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_reset(batch: Batch, name: str, tmp_path: Path) -> None:
    pooler = make(name)
    expected = tensors(pool(pooler, batch))
    torch.save(pooler, tmp_path / "pooler.pt")
    other = make(name)
    other.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(pooler.parameters(), other.parameters()))
    other.load_state_dict(pooler.state_dict())
    for loaded in (other, torch.load(tmp_path / "pooler.pt", weights_only=False)):
        assert all(map(torch.equal, tensors(pool(loaded, batch)), expected))


@pytest.mark.parametrize("adj_transpose", [False, True])
@pytest.mark.parametrize("sparse_output", [False, True])
def test_batched_is_unbatched(batch: Batch, sparse_output: bool, adj_transpose: bool) -> None:
    settings = {"sparse_output": sparse_output, "adj_transpose": adj_transpose}
    batched, unbatched = make("sim", **settings), make("sim_u", **settings)
    unbatched.load_state_dict(batched.state_dict())
    first, second = pool(batched, batch), pool(unbatched, batch)
    torch.testing.assert_close(first.so.s[first.so.in_mask], second.so.s)
    torch.testing.assert_close(first.x, second.x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first.loss, second.loss)
    torch.testing.assert_close(first.mask, second.mask)
    adj = [first.edge_index, second.edge_index]
    if sparse_output:
        assert torch.equal(first.batch, second.batch)
        adj = [to_dense_adj(o.edge_index, o.batch, o.edge_weight, 5) for o in (first, second)]
    torch.testing.assert_close(*adj, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_sparse_matrices(batch: Batch, name: str) -> None:
    """Sparse tensors in COO and CSR form, and a `SparseTensor`, describe the same graph."""
    size = batch.x.size(0)
    coo = to_torch_coo_tensor(batch.edge_index, batch.edge_weight, size)
    matrices = [coo]
    if name != "simmatch":
        matrices += [
            to_csr(batch.edge_index, batch.edge_weight, size),
            torch.sparse_coo_tensor(batch.edge_index, batch.edge_weight, (size, size)),
        ]
    try:
        from torch_sparse import SparseTensor

        matrices.append(SparseTensor.from_torch_sparse_coo_tensor(coo))
    except ImportError:
        pass
    pooler = make(name)
    expected = pool(pooler, batch)
    for adj in matrices:
        out = pooler(x=batch.x, adj=adj, batch=batch.batch)
        torch.testing.assert_close(out.x, expected.x, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(out.loss, expected.loss)


def test_preprocessing_is_part_of_forward(batch: Batch) -> None:
    pooler = make("sim")
    x, adj, mask = pooler.preprocessing(batch.x, batch.edge_index, batch.edge_weight, batch.batch)
    first, second = pooler(x=x, adj=adj, mask=mask), pool(pooler, batch)
    torch.testing.assert_close(first.edge_index, second.edge_index)
    torch.testing.assert_close(first.so.s, second.so.s)
    pooler = make("sim", cache_preprocessing=True)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    first = pooler(x=batch.x[:4], adj=edge_index)
    assert pooler.preprocessing_cache is not None
    torch.testing.assert_close(pooler(x=batch.x[:4], adj=edge_index).x, first.x)


def test_operators_one_by_one(batch: Batch) -> None:
    graph = {"edge_index": batch.edge_index, "edge_weight": batch.edge_weight}
    for name in ("sim_u", "simmatch"):
        pooler = make(name)
        out = pool(pooler, batch)
        so = pooler.select(x=batch.x, batch=batch.batch, num_nodes=batch.x.size(0), **graph)
        x, batch_pooled = pooler.reduce(x=batch.x, so=so, batch=batch.batch)
        adj, _ = pooler.connect(so=so, batch=batch.batch, batch_pooled=batch_pooled, **graph)
        torch.testing.assert_close(x.view_as(out.x), out.x)
        torch.testing.assert_close(adj, out.edge_index)
        lifted = pooler.lift(x_pool=out.x, so=so)
        torch.testing.assert_close(lifted, pooler(x=out.x, so=out.so, lifting=True))


def test_cheatsheet() -> None:
    """The table of poolers in tgp's documentation finds the paper in the docstring."""
    rows = {row[0]: row[1:] for row in cheatsheet.get_pooler_cheatsheet()}
    paper = ["https://arxiv.org/abs/2006.02244"]
    assert rows["sim"] == ("SimPooling", False, True, True, paper)
    assert rows["simmatch"] == ("SimMatch", True, False, False, [])
