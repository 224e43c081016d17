import pytest
import torch

from training import clusters_used


@pytest.mark.parametrize(
    ("rows", "batch", "expected"),
    [
        ([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]], [0, 0], 1),
        ([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]], [0, 0], 2),
        # The same cluster in two graphs counts twice: once for either.
        ([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]], [0, 1], 2),
        ([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], [0, 1, 1], 3),
    ],
)
def test_clusters_used(rows: list[list[float]], batch: list[int], expected: int) -> None:
    used = clusters_used(torch.tensor(rows), torch.tensor(batch), max(batch) + 1)
    assert int(used) == expected
