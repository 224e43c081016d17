"""Kernel: the best among those that share hubs with a row, by the hubs alone.

Rows with the same hubs are a group, whose best candidates are found once. The members of a hub's
list are in order of their norms. So the list is read from its front, and only until no later member
can be among the best.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk.triton.arithmetic import (
    NONE,
    keep_best,
    order_key,
    popcount,
    sortable,
)


@triton.jit(do_not_specialize=["num_hubs", "num_best"])
def best_of_hubs(group_mask, group_norm2, hub_ptr, member_id, member_norm2, member_mask, best,
                 num_hubs, num_best, HALF: tl.constexpr, MEASURE: tl.constexpr):  # fmt: skip
    """Writes the ids of the `num_best` best of each group to a row of `best`, and -1 behind them.

    Those that share more than hubs with a row of the group can only be better than they are here.
    So whoever is left out here is left out there, unless it shares more than hubs.
    """
    group = tl.program_id(0).to(tl.int64)
    own = tl.load(group_mask + group)
    norm2_i = tl.load(group_norm2 + group).to(tl.float64)
    place = tl.arange(0, 2 * HALF)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    worst = tl.max(best_bits, 0)
    earlier = own * 0
    hub = num_hubs * 0
    while hub < num_hubs:
        bit = (own * 0 + 1) << hub
        named = (own & bit) != 0
        # Nodes with an earlier hub in common have been offered: no other shares more than these.
        most = popcount(own & ~earlier).to(tl.float64)
        at = tl.load(hub_ptr + hub)
        end = tl.where(named, tl.load(hub_ptr + hub + 1), at)
        while at < end:
            member = at + place - HALF
            inside = (place >= HALF) & (member < end)
            theirs = tl.load(member_mask + member, mask=inside, other=0)
            new = inside & ((theirs & own & earlier) == 0)
            shared = tl.where(new, popcount(theirs & own), 1).to(tl.float64)
            norm2_j = tl.load(member_norm2 + member, mask=inside, other=1).to(tl.float64)
            bits = sortable(order_key(shared, norm2_i, norm2_j, MEASURE))
            bits = tl.where(new, bits, NONE)
            if tl.max(bits, 0) >= worst:
                ids = tl.load(member_id + member, mask=inside, other=0).to(tl.int64)
                best_bits, best_ids = keep_best(
                    best_bits, best_ids, bits, ids, place, num_best, HALF
                )
                worst = tl.max(tl.where(place == num_best - 1, best_bits, NONE), 0)
            at += HALF
            norm2_next = tl.load(member_norm2 + at, mask=at < end, other=1).to(tl.float64)
            bound = sortable(order_key(most, norm2_i, norm2_next, MEASURE))
            at = tl.where(bound < worst, end, at)
        earlier = earlier | (own & bit)
        hub += 1
    tl.store(best + group * num_best + place, best_ids, mask=place < num_best)
