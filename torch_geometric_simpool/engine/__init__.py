"""Fast paths. Nothing in here is public, and no result depends on it.

`dispatch` is the only entry point: it decides which calls take a fast path, and
:func:`disabled` switches fast paths off.
"""

from torch_geometric_simpool.engine.dispatch import disabled

__all__ = ["disabled"]
