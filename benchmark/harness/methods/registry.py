"""The methods by name. A new peer is a class and one line here.

An entry of `PEERS` gets a row in every table over all methods; one of `TGP` only in the tables of
torch-geometric-pool.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from harness.methods.base import NetworkInput, Peer
from harness.methods.diffpool import DiffPoolNet
from harness.methods.precoarsened import NAMES as PRECOARSENED
from harness.methods.precoarsened import PrecoarsenedNet
from harness.methods.selection import SortPoolNet, graph_u_net, sag_pool
from harness.methods.tgp import NAMES, PREFIX, TgpNet
from harness.methods.unpooled import Baseline, NoPool


class Method(NamedTuple):
    """A peer, as options and runs name it."""

    network: Callable[[NetworkInput], Peer]
    #: Whether its output has `levels`, so that L_E, L_C and clusters are stored for every epoch.
    assigns: bool = False

    def build(self, given: NetworkInput) -> Peer:
        """The network, which checks that it returns what is said here."""
        peer = self.network(given)
        peer.assigns = self.assigns
        return peer


#: In the order of the tables over all methods.
PEERS: dict[str, Method] = {
    "baseline": Method(Baseline),
    "diffpool": Method(DiffPoolNet, assigns=True),
    "diffpool-unnormalized": Method(partial(DiffPoolNet, normalize=False), assigns=True),
    "nopool": Method(NoPool),
    "sagpool": Method(sag_pool),
    "gunet": Method(graph_u_net),
    "sortpool": Method(SortPoolNet),
}
METHODS = ("simpool", *PEERS)
#: The poolers of torch-geometric-pool.
TGP = {
    f"{PREFIX}{name}": Method(partial(PrecoarsenedNet if name in PRECOARSENED else TgpNet, name))
    for name in NAMES
}
#: The methods whose output has `levels`.
ASSIGNING = ("simpool", *(name for name, peer in PEERS.items() if peer.assigns))
