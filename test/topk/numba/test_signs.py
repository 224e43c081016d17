"""Negative candidates beside dot products that are zero up to rounding."""

import torch

from torch_geometric_simpool import topk_similarity


def test_a_zero_takes_no_place_of_a_negative_similarity() -> None:
    rows = torch.tensor([[0.1, 0.2, 0.3]] + 8 * [[1.0, 1, -1]] + [[-1.0, 0, 0], [0, -1, 0]])
    edge_index = rows.nonzero().t()
    weight = rows.double()[tuple(edge_index)]
    weight[:3] = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    options = {"num_nodes": (11, 3), "loop": False, "nodes": torch.tensor([0])}
    _, index = topk_similarity(edge_index, 2, weight, backend="numba", **options)  # type: ignore[arg-type]
    _, expected = topk_similarity(edge_index, 2, weight, backend="torch", **options)  # type: ignore[arg-type]
    assert torch.equal(index, expected)
    assert index.tolist() == [[9, 10]]
