"""Recommending items like those that a user had
=============================================

Recommendations from who interacted with what, by similar items. Generated interactions: the
popularity of items follows a power law, and users prefer items of a few tastes. One interaction of
every user is held out; a method hits if this item is among the ten that it recommends. Nothing is
downloaded.

Usage: ``python examples/recommend.py``
"""

import argparse

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from torch_geometric_simpool import AddSimilarityEdges

USERS, ITEMS, TASTES = 5000, 1000, 20
RECOMMENDED = 10


def main() -> dict[str, float]:
    """Prints and returns how often the held-out item is recommended, by method."""
    data = generate()
    # Items are compared by their users. The edges go from a similar item to the item.
    data = AddSimilarityEdges(k=20, node_type="item")(data)
    similar = data["item", "similar", "item"]
    edge_index = data["user", "had", "item"].edge_index
    print(f"{edge_index.size(1)} interactions of {USERS} users and {ITEMS} items")
    tastes = data["item"].taste[similar.edge_index]
    same = (tastes[0] == tastes[1]).float().mean()
    print(f"{similar.num_edges} edges between similar items, {same:.2f} of them of one taste")

    had = torch.zeros(USERS, ITEMS)
    had[edge_index[0], edge_index[1]] = 1
    similarity = torch.zeros(ITEMS, ITEMS)
    similarity[similar.edge_index[1], similar.edge_index[0]] = similar.edge_weight
    scores = {
        "most popular": had.sum(dim=0).expand_as(had),
        "similar items": had @ similarity,
    }
    hits = {}
    print(f"Hit rate among {RECOMMENDED} recommended items:")
    for name, score in scores.items():
        hits[name] = hit_rate(score.masked_fill(had > 0, -1), data["user"].held_out)
        print(f"  {name}: {hits[name]:.3f}")
    return hits


def generate(seed: int = 0) -> HeteroData:
    """Interactions, and one more of every user that is held out."""
    generator = torch.Generator().manual_seed(seed)
    popularity = torch.arange(1, ITEMS + 1).pow(-0.8)
    taste = torch.randint(TASTES, (ITEMS,), generator=generator)
    # High powers of uniform numbers: few tastes of a user stand out.
    liking = torch.rand(USERS, TASTES, generator=generator).pow(16)
    chance = popularity * (liking[:, taste] + 0.02)
    # From 5 to 50 interactions; without replacement, in the order of the draw.
    most = 50
    count = (5 / torch.rand(USERS, generator=generator)).clamp(max=most).long()
    drawn = torch.multinomial(chance, most, generator=generator)
    place = torch.arange(most).expand_as(drawn)
    held_out = (torch.rand(USERS, generator=generator) * count).long().view(-1, 1)
    kept = (place < count.view(-1, 1)) & (place != held_out)

    data = HeteroData()
    data["user"].num_nodes = USERS
    data["user"].held_out = drawn.gather(1, held_out).view(-1)
    data["item"].num_nodes = ITEMS
    data["item"].taste = taste
    user = kept.nonzero()[:, 0]
    data["user", "had", "item"].edge_index = torch.stack([user, drawn[kept]])
    return data


def hit_rate(score: Tensor, held_out: Tensor) -> float:
    """How often the item is among the best scores of its row."""
    recommended = score.topk(RECOMMENDED, dim=1).indices
    return float((recommended == held_out.view(-1, 1)).any(dim=1).float().mean())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
