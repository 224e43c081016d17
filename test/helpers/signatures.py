"""A right call of every public function, and wrong values of every parameter."""

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.data import Data

import torch_geometric_simpool as simpool
from torch_geometric_simpool.analysis import diagnostics, locality
from torch_geometric_simpool.models import (
    GMN,
    DenseGCN,
    GMNConv,
    GMNEncoder,
    GRUAssignment,
    GRUEncoder,
    MLPAssignment,
    SimPoolNet,
)

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
BATCH = torch.tensor([0, 0, 0])
X = torch.rand(3, 2)
ADJ = torch.ones(3, 3)
PROBABILITIES = torch.full((3, 2), 0.5)
COUNT = torch.tensor([3, 3, 3])


class Case(NamedTuple):
    """A call that is right: a public function, or a method of a public class."""

    function: Callable[..., Any]  # whose signature is read
    call: Callable[..., Any]  # what is called with its arguments
    arguments: dict[str, Any]


def case(function: Any, **arguments: Any) -> Case:
    """Of a function, or of the constructor of a class."""
    signature = function.__init__ if inspect.isclass(function) else function
    return Case(signature, function, arguments)


def method(instance: Any, name: str, **arguments: Any) -> Case:
    """Of a method, or of a class method of a class."""
    bound = getattr(instance, name)
    of = instance if inspect.isclass(instance) else type(instance)
    return Case(getattr(of, name), bound, arguments)


def make_pool(**settings: Any) -> simpool.SimPool:
    return simpool.SimPool(MLPAssignment(2, 4, 2), **settings)


def make_net(**settings: Any) -> SimPoolNet:
    return SimPoolNet(2, 3, k=2, clusters=(2, 2), width=1 / 64, **settings)


def edit(name: str, **arguments: Any) -> Case:
    """Of an index that has not been edited."""

    def call(**given: Any) -> Any:
        return getattr(simpool.SimilarityIndex(EDGES, torch.ones(4)), name)(**given)

    return Case(getattr(simpool.SimilarityIndex, name), call, arguments)


ROWS = ("nodes", "candidates")
DATA = Data(edge_index=EDGES, num_nodes=3)
TOP = {"edge_index": EDGES, "k": 2, "edge_weight": torch.ones(4), "num_nodes": 3}
SPARSE = {"x": X, "edge_index": EDGES, "batch": BATCH, "batch_size": 1}

CASES: dict[str, Case] = {
    "topk_similarity": case(
        simpool.topk_similarity, nodes=torch.tensor([0]), candidates=torch.tensor([1]), **TOP
    ),
    "estimate_topk": case(simpool.estimate_topk, **TOP),
    "similarity_graph": case(simpool.similarity_graph, **TOP),
    "structural_similarity": case(
        simpool.structural_similarity, adj=ADJ, mask=torch.ones(3, dtype=torch.bool)
    ),
    "map_indices": case(
        simpool.map_indices,
        values=torch.rand(3, 2),
        index=torch.tensor([[0, 1], [1, 2], [2, -1]]),
        num_nodes=COUNT,
    ),
    "entropy_loss": case(simpool.entropy_loss, s=PROBABILITIES, batch=BATCH, batch_size=1),
    "entropy_loss (dense)": case(
        simpool.entropy_loss, s=PROBABILITIES[None], mask=torch.ones(1, 3, dtype=torch.bool)
    ),
    "cluster_loss": case(simpool.cluster_loss, s=PROBABILITIES, batch=BATCH, batch_size=1),
    "cluster_mask": case(simpool.cluster_mask, s=PROBABILITIES, batch=BATCH, batch_size=1),
    "cluster_mask (dense)": case(
        simpool.cluster_mask, s=PROBABILITIES[None], mask=torch.ones(1, 3, dtype=torch.bool)
    ),
    "lift": case(simpool.lift, x=torch.rand(1, 2, 4), s=PROBABILITIES, batch=BATCH, batch_size=1),
    "lift (dense)": case(
        simpool.lift,
        x=torch.rand(1, 2, 4),
        s=PROBABILITIES[None],
        mask=torch.ones(1, 3, dtype=torch.bool),
    ),
    "sim_pool": case(
        simpool.sim_pool,
        s=PROBABILITIES,
        edge_weight=torch.ones(4),
        edge_attr=torch.rand(4, 2),
        **SPARSE,
    ),
    "dense_sim_pool": case(
        simpool.dense_sim_pool,
        x=X[None],
        adj=ADJ[None],
        s=PROBABILITIES[None],
        mask=torch.ones(1, 3, dtype=torch.bool),
    ),
    "SimPool": case(simpool.SimPool, assignment=MLPAssignment(2, 4, 2), k=2),
    "SimPool.forward": method(
        make_pool(k=2),
        "forward",
        sim=torch.rand(3, 2),
        edge_weight=torch.ones(4),
        edge_attr=torch.rand(4, 2),
        pool_edge_attr=True,
        **SPARSE,
    ),
    "SimPool.forward (node)": method(
        make_pool(features="node"), "forward", assign_x=torch.rand(3, 2), **SPARSE
    ),
    "SimPool.forward (dense)": method(
        make_pool(k=2),
        "forward",
        x=X[None],
        adj=ADJ[None],
        mask=torch.ones(1, 3, dtype=torch.bool),
        sim=torch.rand(1, 3, 2),
    ),
    "SimilarityIndex": case(simpool.SimilarityIndex, **{n: v for n, v in TOP.items() if n != "k"}),
    "SimilarityIndex.query": method(
        simpool.SimilarityIndex(EDGES), "query", nodes=torch.tensor([0]), k=2
    ),
    "SimilarityIndex.add_edges": edit(
        "add_edges", edge_index=torch.tensor([[0], [2]]), edge_weight=torch.ones(1)
    ),
    "SimilarityIndex.remove_edges": edit("remove_edges", edge_index=EDGES[:, :1]),
    "StructuralSimilarity": case(simpool.StructuralSimilarity, k=2),
    "StructuralSimilarity.forward": method(simpool.StructuralSimilarity(2), "forward", data=DATA),
    "StructuralSimilarity.precompute": method(
        simpool.StructuralSimilarity(2), "precompute", dataset=[DATA], progress=False
    ),
    "AddSimilarityEdges": case(simpool.AddSimilarityEdges, k=2),
    "AddSimilarityEdges.forward": method(simpool.AddSimilarityEdges(2), "forward", data=DATA),
    "SimPool.from_transform": method(
        simpool.SimPool,
        "from_transform",
        transform=simpool.StructuralSimilarity(2),
        assignment=MLPAssignment(2, 4, 2),
    ),
    "SimPoolNet.from_preset": method(
        SimPoolNet, "from_preset", preset="enzymes", in_channels=2, num_classes=3, width=1 / 64
    ),
    "SimPoolNet.from_transform": method(
        SimPoolNet,
        "from_transform",
        transform=simpool.StructuralSimilarity(2),
        in_channels=2,
        num_classes=3,
    ),
    "SimPoolNetOutput.loss": method(
        make_net()(sim=torch.rand(3, 2), **SPARSE), "loss", y=torch.tensor([1])
    ),
    "Diagnostics.metrics": method(diagnostics.Diagnostics(make_pool(k=2)), "metrics", epoch=1),
    "GMNEncoder": case(GMNEncoder, in_channels=2, channels=4),
    "GMNEncoder.forward": method(
        GMNEncoder(2, 4, edge_dim=2), "forward", x=X, edge_attr=torch.rand(4, 2)
    ),
    "GMNEncoder.forward (GRU)": method(
        GMNEncoder(0, 4, gru=True), "forward", x=ADJ, num_nodes=COUNT
    ),
    "GMNConv": case(GMNConv, in_channels=2, out_channels=4),
    "GMNConv.forward": method(
        GMNConv(2, 4, edge_dim=2), "forward", x=X, edge_index=EDGES, edge_attr=torch.rand(4, 2)
    ),
    "GMN": case(
        GMN, in_channels=2, encoder_channels=4, hidden_channels=(4, 4), out_channels=(4, 4)
    ),
    "GMN.forward": method(
        GMN(2, 4, (4, 4), (4, 4), edge_dim=2),
        "forward",
        x=X,
        edge_index=EDGES,
        edge_attr=torch.rand(4, 2),
    ),
    "DenseGCN": case(DenseGCN, in_channels=2, out_channels=4),
    "DenseGCN.forward": method(
        DenseGCN(2, 4),
        "forward",
        x=X[None],
        adj=ADJ[None],
        mask=torch.ones(1, 3, dtype=torch.bool),
    ),
    "MLPAssignment": case(MLPAssignment, in_channels=2, hidden_channels=4, num_clusters=2),
    "GRUAssignment": case(GRUAssignment, hidden_channels=4, num_clusters=2),
    "GRUAssignment.forward": method(GRUAssignment(4, 2), "forward", x=ADJ, num_nodes=COUNT),
    "GRUEncoder": case(GRUEncoder, out_channels=4),
    "GRUEncoder.forward": method(GRUEncoder(4), "forward", x=ADJ, num_nodes=COUNT),
    "SimPoolNet": case(SimPoolNet, in_channels=2, num_classes=3),
    "SimPoolNet.forward": method(
        make_net(edge_dim=2),
        "forward",
        sim=torch.rand(3, 2),
        edge_attr=torch.rand(4, 2),
        edge_weight=torch.ones(4),
        **SPARSE,
    ),
    "locality": case(
        locality.locality, edge_index=EDGES, cluster=BATCH, num_clusters=2, batch=BATCH
    ),
    "Diagnostics": case(diagnostics.Diagnostics, model=make_pool(k=2)),
    "plot_clusters": case(
        simpool.plot_clusters,
        data=Data(edge_index=EDGES, num_nodes=3),
        s=BATCH,
        ax=Figure().subplots(),
    ),
}

#: Parameters that are not tested, and why.
NOT_CHECKED = {
    ("entropy_loss", "mask"): "excluded by `batch`, which the error names; see the dense case",
    ("cluster_loss", "mask"): "the same",
    ("SimPool.forward", "pool_x"): "a function; what it returns is the caller's affair",
    ("SimPool.forward (node)", "pool_x"): "the same",
    ("SimPool.forward (node)", "sim"): "not read where `features` is 'node'",
    ("SimPool.forward (node)", "edge_attr"): "for the assignment network, which reads none here",
    ("SimPool.forward", "assign_x"): "not read where `features` is 'structural'",
    ("SimPool.forward (dense)", "assign_x"): "the same",
    ("SimPool.forward", "node_attr"): "read where a transform with `order_attr` runs alone",
    ("SimPool.forward (node)", "node_attr"): "the same",
    ("SimPool.forward (dense)", "node_attr"): "the same",
    ("SimPoolNet.forward", "node_attr"): "the same",
    ("GMNEncoder.forward", "num_nodes"): "read by a GRU alone, which has a case",
    ("GMN.forward", "num_nodes"): "the same",
    ("Diagnostics", "log_dir"): "a folder, which needs TensorBoard",
}

#: Kinds of values, by the name of a parameter, that are right in spite of their name.
RIGHT = {
    ("edge_weight", "integers"): "weights may be integers",
    ("edge_index", "sparse"): "a transposed sparse matrix, where it is taken; see `test_checks`",
}
#: The same of one function. A tensor that others are compared with has no shape of its own: errors
#: name the others.
RIGHT_HERE = {
    *((key, "edge_index", "another device") for key in CASES),
    *((key, name, kind) for key in CASES for name in ("x", "s") for kind in ("too short",)),
    ("structural_similarity", "adj", "integers"),
    ("structural_similarity", "adj", "more dimensions"),  # any number of graphs
    ("map_indices", "num_nodes", "no dimension"),
    ("map_indices", "num_nodes", "out of range"),  # then every index is, which the error names
    ("GMNEncoder.forward", "x", "more dimensions"),
    ("GMNEncoder.forward", "edge_attr", "too short"),  # the number of edges is not known
    ("GMN.forward", "x", "more dimensions"),  # it has another number of nodes
    *((f"{name}.forward", "edge_attr", "integers") for name in ("GMNEncoder", "GMN", "SimPoolNet")),
    ("locality", "cluster", "too short"),
    ("locality", "cluster", "another device"),
    ("plot_clusters", "s", "another device"),  # copied to the CPU, but `meta` has no values
}


def wrong_values(hint: Any, right: Any) -> Iterator[tuple[str, Any]]:
    """Values that no parameter of this annotation takes, each with a name."""
    options = get_args(hint) if get_origin(hint) is Union else (hint,)
    yield "object", object()
    if Tensor in options:
        yield "list", [1, 2]
        if isinstance(right, Tensor):
            yield "more dimensions", right.expand(1, 1, 1, 1, *right.shape)
            yield "no dimension", right.new_ones(())
            yield "too short", right[:-1]
            yield "complex", right.to(torch.complex64)
            yield "sparse", right.to_sparse()
            yield "another device", right.to("meta")
            if right.is_floating_point() or right.dtype == torch.bool:
                yield "integers", right.long()
            else:
                yield "real", right.float() + 0.5
                yield "boolean", right > 0
                yield "out of range", right - 10**12
    elif int in options:
        yield from (("real", 1.5), ("negative", -7), ("boolean", True), ("string", "2"))
    elif float in options:
        yield from (("NaN", math.nan), ("infinite", math.inf), ("string", "0.5"))
        yield from (("below", -1e9), ("boolean", True))
    elif bool in options:
        yield from (("string", "no"), ("integer", 2), ("None", None))
    elif str in options:
        yield "integer", 3


def parameters(case: Case) -> Iterator[tuple[str, Any]]:
    """The annotated parameters."""
    hints = get_type_hints(case.function, localns={"Axes": Axes})
    for name, parameter in inspect.signature(case.function).parameters.items():
        if name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        yield name, hints[name]


def wrong_calls() -> Iterator[tuple[str, str, str, Any]]:
    """The key of a case, a parameter, the kind of its value, and the value."""
    for key, case in CASES.items():
        for name, hint in parameters(case):
            if (key, name) in NOT_CHECKED:
                continue
            for kind, value in wrong_values(hint, case.arguments.get(name)):
                if (name, kind) not in RIGHT and (key, name, kind) not in RIGHT_HERE:
                    yield key, name, kind, value
