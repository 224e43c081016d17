"""Means over steps, and the clusters that each graph uses."""

import pytest
import torch

from torch_geometric_simpool import dense_sim_pool
from torch_geometric_simpool.analysis import AssignmentRecorder
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import SimPoolNet


def output(s: torch.Tensor, loss: float) -> SimPoolOutput:
    return SimPoolOutput(s, s, s, torch.tensor(loss), torch.tensor(2 * loss), s > 0)


def test_clusters_and_means() -> None:
    recorder = AssignmentRecorder()
    batch = torch.tensor([0, 0, 0, 2, 2])
    recorder.add(output(torch.eye(4)[[0, 1, 1, 3, 3]], 1.0), batch)
    recorder.add(output(torch.eye(4)[[0, 0, 0, 3, 3]], 2.0), batch)
    found = recorder.summary()
    assert found == {
        "level0/entropy_loss": 1.5,
        "level0/cluster_loss": 3.0,
        "level0/clusters": 1.25,
        "level0/collapsed": 0.75,
    }
    assert recorder.summary() == {}


def test_padded_rows_do_not_count() -> None:
    mask = torch.tensor([[True, True, False], [True, True, True]])
    s = torch.tensor([[1, 2, 0], [2, 2, 2]])
    logits = 9.0 * torch.nn.functional.one_hot(s, 3)
    pooled = dense_sim_pool(torch.randn(2, 3, 4), torch.rand(2, 3, 3), logits, mask)
    rows = logits.softmax(dim=-1).masked_fill(~mask.unsqueeze(-1), 0)
    recorder = AssignmentRecorder()
    recorder.add(SimPoolOutput(rows, *pooled, rows > 0))
    found = recorder.summary()
    assert found["level0/clusters"] == 1.5
    assert found["level0/entropy_loss"] == pytest.approx(pooled.entropy_loss.item())


def test_levels_of_a_network() -> None:
    net = SimPoolNet.from_preset("enzymes", 3, 2, width=0.02)
    recorder = AssignmentRecorder()
    batch = torch.arange(12) // 4
    edge_index = torch.stack([torch.arange(12), batch * 4])
    out = net(torch.randn(12, 3), edge_index, batch)
    recorder.add(out, batch)
    found = recorder.summary()
    assert found["level1/entropy_loss"] == pytest.approx(out.levels[1].entropy_loss.item())
    assert 1 <= found["level1/clusters"] <= 4
    with pytest.raises(ValueError, match="`batch`"):
        recorder.add(out, batch[1:])
