"""The CPU backend of the sparse top k: compiled by Numba when first used.

Nothing outside of this folder imports Numba, and nothing imports this folder
before a top k is taken on a CPU: importing Numba takes most of a second.
"""
