"""Recommending items by similar items
===================================

Items are similar if the same users interacted with them. The interactions are generated: the
popularity of items follows a power law, and users prefer items of a few tastes. One interaction of
every user is held out. A method hits if that item is among the ten items that it recommends.

Usage: ``python examples/recommend.py``
"""

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from torch_geometric_simpool import AddSimilarityEdges

USERS, ITEMS, TASTES = 5000, 1000, 20
RECOMMENDED = 10


def generate(seed: int = 0) -> HeteroData:
    """Returns interactions, with one more item of every user that is held out."""
    generator = torch.Generator().manual_seed(seed)
    popularity = torch.arange(1, ITEMS + 1).pow(-0.8)
    taste = torch.randint(TASTES, (ITEMS,), generator=generator)
    # High powers of uniform numbers: every user prefers few tastes.
    preference = torch.rand(USERS, TASTES, generator=generator).pow(16)
    chance = popularity * (preference[:, taste] + 0.02)
    # Every user has 5 to 50 interactions, drawn without replacement.
    most = 50
    count = (5 / torch.rand(USERS, generator=generator)).clamp(max=most).long()
    drawn = torch.multinomial(chance, most, generator=generator)
    place = torch.arange(most).expand_as(drawn)
    held_out = (torch.rand(USERS, generator=generator) * count).long().view(-1, 1)
    visible = (place < count.view(-1, 1)) & (place != held_out)

    data = HeteroData()
    data["user"].num_nodes = USERS
    data["user"].held_out = drawn.gather(1, held_out).view(-1)
    data["item"].num_nodes = ITEMS
    data["item"].taste = taste
    edge_index = torch.stack([visible.nonzero()[:, 0], drawn[visible]])
    data["user", "had", "item"].edge_index = edge_index
    return data


def hit_rate(score: Tensor, held_out: Tensor) -> float:
    """Returns how often the held-out item has one of the best scores of its user."""
    recommended = score.topk(RECOMMENDED, dim=1).indices
    return float((recommended == held_out.view(-1, 1)).any(dim=1).float().mean())


def main() -> dict[str, float]:
    """Prints and returns the hit rate of each method."""
    # The edges lead to each item from its similar items.
    data = AddSimilarityEdges(k=20, node_type="item")(generate())
    similar = data["item", "similar", "item"]
    source, target = data["item"].taste[similar.edge_index]
    same = float((source == target).float().mean())
    print(f"{similar.num_edges} edges between similar items, {same:.2f} of them of one taste")

    user, item = data["user", "had", "item"].edge_index
    interactions = torch.zeros(USERS, ITEMS)
    interactions[user, item] = 1
    similarity = torch.zeros(ITEMS, ITEMS)
    similarity[similar.edge_index[0], similar.edge_index[1]] = similar.edge_weight
    scores = {
        "most popular": interactions.sum(dim=0).expand_as(interactions),
        "similar items": interactions @ similarity,
    }
    hits = {}
    print(f"Hit rate among {RECOMMENDED} recommended items:")
    for name, score in scores.items():
        hits[name] = hit_rate(score.masked_fill(interactions > 0, -1), data["user"].held_out)
        print(f"  {name}: {hits[name]:.3f}")
    return hits


if __name__ == "__main__":
    main()
