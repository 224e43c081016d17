"""All fuzzers, by the name of their module."""

from campaign import calls, concurrency, interruption, kills, memory, operators, topk

FUZZERS = {
    module.__name__.rsplit(".", 1)[-1]: module.FUZZER
    for module in (topk, operators, concurrency, interruption, memory, kills, calls)
}
