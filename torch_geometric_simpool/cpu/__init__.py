"""The CPU backend of the sparse top k: compiled by Numba when first used.

Nothing else in the package imports Numba, and nothing imports this folder before a top k
is taken on a CPU: so the torch backend works where Numba does not.
"""
