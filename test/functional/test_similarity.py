"""The dense similarity, which specifies the sparse top k, equals the oracle."""

import math

import pytest
import torch
from torch import Tensor

from helpers import oracle
from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool import reference, structural_similarity
from torch_geometric_simpool.functional.similarity import MEASURES
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str, measure: str) -> None:
    for seed, p in enumerate((1, 2, 3)):
        graph = draw(flavor, seed)
        # For 0.3, rounding decides whether two sums of the Hamming distance are equal.
        for lam in (0.0, 0.5, 1.0) if measure == "hamming" else (0.0, 0.5, 0.3):
            sim = structural_similarity(graph.adj(), p=p, lam=lam, measure=measure)
            exact = oracle.similarity(graph.exact_adj, p, lam, measure)
            expected = torch.tensor(exact, dtype=torch.float64).view(sim.shape)
            torch.testing.assert_close(sim, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("flavor", ["undirected", "integer", "signed", "isolated", "loops"])
def test_cosine_of_a_symmetric_matrix_is_the_papers(flavor: str) -> None:
    """The paper's symmetric formula describes a node by a column of `A_hat` alone."""
    for seed, (p, lam) in enumerate(((1, 0.0), (2, 0.3), (3, 0.0))):
        adj = draw(flavor, seed).adj()
        looped = adj + lam * torch.eye(adj.size(0), dtype=adj.dtype)
        power = torch.linalg.matrix_power(looped, p)
        norm = power.norm(dim=0)
        norm = torch.where(norm > 0, norm, torch.ones_like(norm))
        symmetric = power.t() @ power / (norm.unsqueeze(0) * norm.unsqueeze(1))
        torch.testing.assert_close(
            structural_similarity(adj, p=p, lam=lam), symmetric, rtol=0, atol=1e-9
        )


def test_by_hand() -> None:
    """In a path of three nodes, both ends have the same neighbor."""
    path = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert structural_similarity(path).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    half = 1 / math.sqrt(2)  # (1, 1, 0) and (1, 1, 1), ...
    looped = torch.tensor([[1, 2 * half / math.sqrt(3), 0.5]])
    torch.testing.assert_close(structural_similarity(path, lam=1.0)[:1], looped)
    # The descriptions of an end and the middle, (0, 1, 0) and (1, 0, 1), share no feature.
    jaccard = structural_similarity(path, measure="jaccard")
    assert jaccard.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    hamming = structural_similarity(path, measure="hamming")
    assert hamming.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    # A description holds its row twice, so the distance is sqrt(2 * 3).
    distance = 1 / (1 + math.sqrt(6))
    l2 = torch.tensor([[1, distance, 1], [distance, 1, distance], [1, distance, 1]])
    torch.testing.assert_close(structural_similarity(path, measure="l2"), l2)


def test_jaccard_of_an_unweighted_graph_is_the_share_of_common_neighbors() -> None:
    edges = [(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (1, 5), (1, 6)]
    adj = torch.zeros(7, 7)
    for i, j in edges:
        adj[i, j] = adj[j, i] = 1
    sim = structural_similarity(adj, measure="jaccard")
    assert sim[0, 1].item() == pytest.approx(2 / 5)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_node_without_a_description_is_similar_to_nothing(measure: str) -> None:
    """Its similarity to itself is zero too, under any measure, unless `lam > 0`."""
    adj = torch.zeros(3, 3)
    adj[0, 1] = adj[1, 0] = 1
    sim = structural_similarity(adj, measure=measure)
    assert (sim[2] == 0).all()
    assert (sim[:, 2] == 0).all()
    assert sim[0, 0] == 1
    assert structural_similarity(adj, lam=0.5, measure=measure)[2, 2] == 1


def test_direction_counts() -> None:
    """Nodes 0 and 1 of the path 0 -> 2 -> 1 are not similar: 2 is an out- and an in-neighbor."""
    adj = torch.zeros(3, 3)
    adj[0, 2] = adj[2, 1] = 1
    assert structural_similarity(adj)[0, 1] == 0


def test_negative_weights_give_signed_similarities() -> None:
    adj = torch.zeros(3, 3)
    adj[0, 2], adj[1, 2] = 1, -1
    assert structural_similarity(adj)[0, 1] == -1
    assert structural_similarity(adj, measure="jaccard")[0, 1].item() == pytest.approx(-1 / 3)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("p", [1, 3])
def test_permuted_equals_permuted_back(p: int, measure: str) -> None:
    """The identity is `C(P A P^T) = P C(A) P^T`, for directed graphs and for `P P != I` too."""
    for flavor in FLAVORS:
        adj = draw(flavor, 0).adj()
        order = torch.randperm(adj.size(0))
        permuted = structural_similarity(adj[order][:, order], p=p, lam=0.5, measure=measure)
        straight = structural_similarity(adj, p=p, lam=0.5, measure=measure)
        torch.testing.assert_close(permuted, straight[order][:, order])


@pytest.mark.parametrize("poison", [0.0, 1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("measure", MEASURES)
def test_padded_equals_unpadded(measure: str, poison: float) -> None:
    """Values and gradients are equal, and padding is not read."""
    graphs = [graph for graph in draw_all(1) if graph.num_nodes > 0]
    size = max(graph.num_nodes for graph in graphs) + 2
    padded = torch.full((len(graphs), size, size), poison, dtype=torch.float64)
    mask = torch.zeros(len(graphs), size, dtype=torch.bool)
    # Weights are random, because an overlap has no gradient if two norms are equal.
    matrices = [graph.adj() * (1 + torch.rand_like(graph.adj())) for graph in graphs]
    for b, matrix in enumerate(matrices):
        n = matrix.size(0)
        padded[b, :n, :n] = matrix
        mask[b, :n] = True
    padded.requires_grad_()
    for p, lam in ((1, 0.0), (2, 0.3)):
        sim = structural_similarity(padded, p=p, lam=lam, measure=measure, mask=mask)
        upstream = torch.randn_like(sim)
        (gradient,) = torch.autograd.grad((sim * upstream).sum(), padded)
        for b, matrix in enumerate(matrices):
            n, adj = matrix.size(0), matrix.clone().requires_grad_()
            alone = structural_similarity(adj, p=p, lam=lam, measure=measure)
            (of_alone,) = torch.autograd.grad((alone * upstream[b, :n, :n]).sum(), adj)
            torch.testing.assert_close(sim[b, :n, :n], alone)
            torch.testing.assert_close(gradient[b, :n, :n], of_alone)
        real = mask.unsqueeze(1) & mask.unsqueeze(2)
        assert (sim[~real] == 0).all()
        assert (gradient[~real] == 0).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_an_arbitrary_mask_cuts_the_graph_out(measure: str) -> None:
    """Padding may come before nodes."""
    adj = draw("dyadic", 1).adj()
    mask = torch.arange(adj.size(0)) % 3 != 1
    sim = structural_similarity(adj, p=2, lam=0.5, measure=measure, mask=mask)
    cut = structural_similarity(adj[mask][:, mask], p=2, lam=0.5, measure=measure)
    torch.testing.assert_close(sim[mask][:, mask], cut)
    assert (sim[~mask] == 0).all()
    assert (sim[:, ~mask] == 0).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_batched_equals_single_with_any_leading_dimensions(measure: str) -> None:
    adj = torch.rand(2, 3, 5, 5)
    sim = structural_similarity(adj, p=2, measure=measure)
    assert sim.shape == adj.shape
    for a in range(2):
        for b in range(3):
            alone = structural_similarity(adj[a, b], p=2, measure=measure)
            torch.testing.assert_close(sim[a, b], alone)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 4, 4), (3, 0, 0), (1, 1)])
def test_empty_shapes(shape: tuple[int, ...], measure: str) -> None:
    sim = structural_similarity(torch.zeros(shape), measure=measure)
    assert sim.shape == shape
    assert (sim == 0).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_values_are_symmetric_and_in_range(measure: str) -> None:
    adj = torch.rand(4, 9, 9)
    sim = structural_similarity(adj, p=3, measure=measure)
    torch.testing.assert_close(sim, sim.mT)
    assert sim.min() >= 0
    assert sim.max() <= 1 or measure == "overlap"
    assert (sim.diagonal(dim1=1, dim2=2) == 1).all()


def test_types() -> None:
    adj = torch.tensor([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert structural_similarity(adj).dtype == torch.float32
    for dtype in (torch.bool, torch.int32, torch.float64, torch.float16, torch.bfloat16):
        sim = structural_similarity(adj.to(dtype))
        assert sim.dtype == (dtype if dtype.is_floating_point else torch.float32)
        assert sim.tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]]


def test_strides_do_not_matter() -> None:
    adj = torch.rand(6, 6, 2)[..., 0]
    assert not adj.is_contiguous()
    torch.testing.assert_close(
        structural_similarity(adj, p=2), structural_similarity(adj.contiguous(), p=2)
    )


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("measure", SPARSE_MEASURES)
def test_scale_does_not_matter(measure: str, scale: float) -> None:
    """Scaled weights give equal similarities in float32, although a third power overflows."""
    adj = draw("directed", 3).adj(torch.float32)
    assert torch.linalg.matrix_power(adj, 3).count_nonzero() > 5
    torch.testing.assert_close(
        structural_similarity(adj * scale, p=3, measure=measure),
        structural_similarity(adj, p=3, measure=measure),
    )


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("measure", MEASURES)
def test_no_power_turns_into_nan_or_nothing(measure: str, scale: float) -> None:
    """A description is zero only if the graph says so, and not because powers leave float32."""
    adj = draw("directed", 3).adj(torch.float32)
    assert torch.linalg.matrix_power(adj, 3).count_nonzero() > 5
    described = structural_similarity(adj, p=3, measure=measure).diagonal()
    scaled = (adj * scale).requires_grad_()
    sim = structural_similarity(scaled, p=3, measure=measure)
    assert torch.equal(sim.diagonal(), described)
    assert torch.isfinite(sim).all()
    (gradient,) = torch.autograd.grad(sim.sum(), scaled)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (2, 0.3)])
@pytest.mark.parametrize("measure", [*SPARSE_MEASURES, "l2"])
def test_gradient(measure: str, p: int, lam: float) -> None:
    adj = torch.rand(2, 4, 4, dtype=torch.float64) + 0.1
    mask = torch.tensor([[True, True, True, True], [True, False, True, True]])
    adj.requires_grad_()

    def sim(adj: Tensor) -> Tensor:
        return structural_similarity(adj, p=p, lam=lam, measure=measure, mask=mask)

    assert torch.autograd.gradcheck(sim, (adj,))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_gradients_are_finite(flavor: str, measure: str) -> None:
    """Gradients are finite for zero rows, equal rows, and graphs without edges."""
    for p in (1, 2):
        adj = draw(flavor, p).adj(torch.float32).requires_grad_()
        sim = structural_similarity(adj, p=p, measure=measure)
        (gradient,) = torch.autograd.grad((sim * torch.randn_like(sim)).sum(), adj)
        assert torch.isfinite(gradient).all()


def test_hamming_has_a_gradient_and_it_is_zero() -> None:
    adj = torch.rand(4, 4).requires_grad_()
    sim = structural_similarity(adj, measure="hamming")
    (gradient,) = torch.autograd.grad(sim.sum(), adj)
    assert (gradient == 0).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_almost_empty_clusters_have_finite_gradients(measure: str) -> None:
    """Rows have all magnitudes of float32, subnormal numbers included."""
    for number, exponent in enumerate(range(10, 45, 2)):
        tiny = 10.0**-exponent
        size = torch.tensor([1.0, 1.0, tiny, tiny, tiny])
        adj = (torch.rand(5, 5) * size * size.unsqueeze(1)).requires_grad_()
        sim = structural_similarity(adj, p=1 + number % 3, measure=measure)
        (gradient,) = torch.autograd.grad((sim * torch.randn_like(sim)).sum(), adj)
        assert torch.isfinite(sim).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("measure", SPARSE_MEASURES)
@pytest.mark.parametrize("tiny", [1e-10, 1e-20, 1e-25, 1e-30])
def test_a_small_description_is_still_one(tiny: float, measure: str) -> None:
    """A node with tiny weights has similarity 1 to itself and to nodes of equal description."""
    adj = torch.tensor([[1.0, 1.0, tiny, tiny], [1.0, 1.0, tiny, tiny]] + [[tiny] * 4] * 2)
    sim = structural_similarity(adj, measure=measure)
    torch.testing.assert_close(sim.diagonal(), torch.ones(4))
    torch.testing.assert_close(sim[2, 3], torch.tensor(1.0))


def test_a_batch_of_the_flavors_equals_the_block_diagonal_graph() -> None:
    """Similarities between nodes of different graphs are zero."""
    joined, batch = union(draw_all(2))
    sim = structural_similarity(joined.adj(), p=2)
    assert (sim[batch.unsqueeze(0) != batch.unsqueeze(1)] == 0).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_the_largest_lam(measure: str) -> None:
    """With the largest `lam`, nodes are similar only to themselves. A larger `lam` is an error."""
    adj = draw("undirected", 1).adj(torch.float32) + torch.eye(9)
    sim = structural_similarity(adj, p=3, lam=3e38, measure=measure)
    assert torch.equal(sim.diagonal(), torch.ones(9))
    assert torch.isfinite(sim).all()
    if measure != "hamming":
        assert (sim - torch.eye(9)).abs().max() < 1e-6
    with pytest.raises(ValueError, match=r"`lam` must be finite in torch.float32.*got 1e\+39"):
        structural_similarity(adj, lam=1e39)


def test_autocast_does_not_narrow_it() -> None:
    adj = torch.rand(6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sim = structural_similarity(adj, p=3)
    assert torch.equal(sim, structural_similarity(adj, p=3))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("p", [5, 37, 1000])
def test_a_high_power_does_not_overflow(p: int, measure: str) -> None:
    """All descriptions are equal, and their entries are 50^(p - 1)."""
    adj = torch.ones(50, 50, requires_grad=True)
    sim = structural_similarity(adj, p=p, measure=measure)
    torch.testing.assert_close(sim, torch.ones(50, 50))
    sim.sum().backward()
    assert adj.grad is not None
    assert torch.isfinite(adj.grad).all()


@pytest.mark.parametrize("measure", MEASURES)
def test_powers_equal_those_of_the_reference(measure: str) -> None:
    adj = torch.rand(7, 7, dtype=torch.float64)
    for p in range(1, 12):
        expected = reference.structural_similarity(adj, p, 0.5, measure)
        torch.testing.assert_close(structural_similarity(adj, p, 0.5, measure), expected)


def test_wrong_arguments() -> None:
    adj = torch.rand(3, 3)
    for options, error, name in (
        ({"adj": [[1.0]]}, TypeError, "adj"),
        ({"adj": adj.to_sparse()}, TypeError, "adj"),
        ({"adj": adj.to(torch.complex64)}, TypeError, "adj"),
        ({"adj": adj[:2]}, ValueError, "adj"),
        ({"adj": adj / 0}, ValueError, "adj"),
        ({"p": 0}, ValueError, "p"),
        ({"p": 1.0}, TypeError, "p"),
        ({"lam": -0.1}, ValueError, "lam"),
        ({"measure": "sine"}, ValueError, "measure"),
        ({"mask": torch.ones(3)}, TypeError, "mask"),
        ({"mask": torch.ones(2).bool()}, ValueError, "mask"),
    ):
        with pytest.raises(error, match=f"`{name}`"):
            structural_similarity(**{"adj": adj, **options})  # type: ignore[arg-type]
