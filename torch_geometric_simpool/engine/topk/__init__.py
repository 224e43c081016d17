"""The CPU backend of the sparse top k and of the edge step: compiled by Numba when first used.

Nothing else in the package imports Numba, and nothing imports this folder before a top k,
or the sum of many messages, is taken on a CPU: so the torch backend works where Numba
does not.
"""
