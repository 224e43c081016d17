"""What Lightning logs are averages over graphs."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from helpers.examples import load

lightning = pytest.importorskip("lightning", reason="needs Lightning")
pytestmark = pytest.mark.slow


def logged(module: Any, loader: DataLoader) -> dict[str, float]:
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    (metrics,) = trainer.validate(module, loader, verbose=False)
    return metrics


def test_the_averages_are_over_graphs(capsys: pytest.CaptureFixture) -> None:
    example = load("lightning_training")
    module = example["main"](epochs=2)
    assert capsys.readouterr().out.count("epoch ") == 2
    module.eval()

    graphs = list(module.trainer.val_dataloaders.dataset)[:15]
    # Batches of eight and of seven graphs; those of the second are small.
    graphs.sort(key=lambda data: data.num_nodes, reverse=True)
    loader = DataLoader(graphs, batch_size=8)
    assert len(loader) == 2
    metrics = logged(module, loader)
    losses, right = [], []
    with torch.no_grad():
        for data in loader:
            out = module.net(data.x, data.edge_index, data.batch, data.sim)
            losses += [float(out.loss(data.y))] * data.num_graphs
            right += (out.logits.argmax(dim=-1) == data.y).tolist()
    assert metrics["val_accuracy"] == pytest.approx(sum(right) / 15)
    assert metrics["val_loss"] == pytest.approx(sum(losses) / 15, rel=1e-5)

    # Without the size of the batch, Lightning takes that of a tensor in it.
    log = module.log

    def without_size(*arguments: Any, batch_size: int, **settings: Any) -> None:
        log(*arguments, **settings)

    module.log = without_size
    assert logged(module, loader)["val_loss"] != pytest.approx(sum(losses) / 15, rel=1e-5)


@pytest.mark.parametrize("name", ["x", "edge_index"])
def test_what_lightning_takes_for_the_size(name: str) -> None:
    """As the comment of the example says."""
    from lightning.pytorch.utilities.data import extract_batch_size

    path = {"x": torch.ones(4, 1), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]])}
    data = Data()
    for key in sorted(path, key=lambda key: key != name):
        data[key] = path[key]
    with pytest.warns(UserWarning, match="ambiguous"):
        size = extract_batch_size(Batch.from_data_list([data] * 3))
    assert size == {"x": 12, "edge_index": 2}[name]
