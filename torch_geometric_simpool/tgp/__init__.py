"""Poolers of torch-geometric-pool (tgp): :class:`SimPooling` and :class:`SimMatch`.

Importing this module registers them, as `"sim"` and `"simmatch"`:

    >>> import torch_geometric_simpool.tgp
    >>> from tgp.poolers import get_pooler
    >>> pooler = get_pooler("sim", in_channels=16, k=8, num_similar=12)

The rest of the package does not need torch-geometric-pool.
"""

try:
    from tgp.poolers import pooler_map
except ImportError as error:
    raise ImportError(
        "`torch_geometric_simpool.tgp` needs torch-geometric-pool and torch-scatter, got: "
        f"{error}. Install them by `pip install torch-scatter --no-build-isolation` and "
        "`pip install torch-geometric-pool`"
    ) from error

from torch_geometric_simpool.tgp.sim_match import SimMatch
from torch_geometric_simpool.tgp.sim_pooling import SimPooling

pooler_map.update(sim=SimPooling, simmatch=SimMatch)

__all__ = ["SimMatch", "SimPooling"]
