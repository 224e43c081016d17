"""All fuzzers, by the name of their module."""

from campaign import batches, calls, concurrency, interruption, kills, memory, operators, topk

FUZZERS = {
    module.__name__.rsplit(".", 1)[-1]: module.FUZZER
    for module in (topk, batches, operators, concurrency, interruption, memory, kills, calls)
}
