"""Recommending items
==================

``recommend`` scores the new items of a user by their similarity to the items that the user has. Its
exponents of degrees select the method. Here they are chosen on one held-out item of every user, and
tested on another item. A method hits if the item is among its ten recommended items.

Without a file, interactions are generated: the popularity of items follows a power law, and users
prefer items of a few tastes. A file has one interaction per line, a user and an item, and may have
further columns, as ``u.data`` of MovieLens 100K has. A user needs at least three items.

Usage: ``python examples/recommend.py [--file u.data]``
"""

import argparse
from itertools import product
from typing import Optional

import pandas as pd
import torch
from torch import Tensor

from torch_geometric_simpool import recommend

RECOMMENDED = 10
EXPONENTS = list(product([0, 0.5, 1], [0.5, 1], [0, 0.5], [1]))


def generate(num_users: int = 5000, num_items: int = 1000, num_tastes: int = 20) -> Tensor:
    """Returns edges from users to items, `[2, E]`."""
    generator = torch.Generator().manual_seed(0)
    popularity = torch.arange(1, num_items + 1).pow(-0.8)
    taste = torch.randint(num_tastes, (num_items,), generator=generator)
    # A high power of uniform numbers has few large entries, so every user prefers few tastes.
    preference = torch.rand(num_users, num_tastes, generator=generator).pow(16)
    chance = popularity * (preference[:, taste] + 0.02)
    # Every user has 5 to 50 items, drawn without replacement.
    drawn = torch.multinomial(chance, 50, generator=generator)
    count = (5 / torch.rand(num_users, 1, generator=generator)).clamp(max=50)
    user, place = (torch.arange(50) < count).nonzero().t()
    return torch.stack([user, drawn[user, place]])


def read(path: str) -> Tensor:
    """Returns the edges of a file, from users to items."""
    table = pd.read_csv(path, sep=None, engine="python", header=None, usecols=[0, 1])
    table = table.drop_duplicates().groupby(0).filter(lambda rows: len(rows) >= 3)
    columns = [torch.from_numpy(pd.factorize(table[column])[0]) for column in table]
    return torch.stack(columns)


def hold_out(edges: Tensor, num_users: int) -> tuple[Tensor, Tensor]:
    """Removes a random edge of every user. Returns the other edges, and the removed items."""
    edges = edges[:, torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(1))]
    edges = edges[:, edges[0].argsort(stable=True)]
    last = edges[0].bincount(minlength=num_users).cumsum(0) - 1
    is_visible = torch.ones(edges.size(1), dtype=torch.bool)
    is_visible[last] = False
    return edges[:, is_visible], edges[1, last]


def hit_rate(items: Tensor, held_out: Tensor) -> float:
    """Returns the share of users whose held-out item is among their recommended items."""
    return float((items == held_out.view(-1, 1)).any(dim=1).float().mean())


def most_popular(edges: Tensor, num_nodes: tuple[int, int]) -> Tensor:
    """Returns the items that most users have, without the items of the user."""
    scores = edges[1].bincount(minlength=num_nodes[1]).repeat(num_nodes[0], 1)
    scores[edges[0], edges[1]] = -1
    return scores.topk(RECOMMENDED).indices


def main(file: Optional[str] = None) -> dict[str, float]:
    """Prints and returns the hit rate of each method."""
    edges = generate() if file is None else read(file)
    num_nodes = int(edges[0].max()) + 1, int(edges[1].max()) + 1
    train, test_items = hold_out(edges, num_nodes[0])
    fit, validation_items = hold_out(train, num_nodes[0])

    def validate(exponents: tuple[float, ...]) -> float:
        _, items = recommend(fit, RECOMMENDED, num_nodes=num_nodes, exponents=exponents)
        return hit_rate(items, validation_items)

    best = max(EXPONENTS, key=validate)
    _, chosen = recommend(train, RECOMMENDED, num_nodes=num_nodes, exponents=best)
    _, cosine = recommend(train, RECOMMENDED, num_nodes=num_nodes, measure="cosine")
    items = {
        "most popular": most_popular(train, num_nodes),
        "cosine": cosine,
        f"exponents {best}": chosen,
    }
    hits = {name: hit_rate(index, test_items) for name, index in items.items()}
    print(f"Hit rate among {RECOMMENDED} recommended items:")
    for name, rate in hits.items():
        print(f"  {name}: {rate:.3f}")
    return hits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", help="a file of interactions, a user and an item per line")
    main(parser.parse_args().file)
