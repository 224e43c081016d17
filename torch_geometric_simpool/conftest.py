"""For `pytest --doctest-modules --pyargs torch_geometric_simpool`: skips what misses packages."""

from importlib.util import find_spec

#: The optional packages that the doctests of a module, or of a folder, need.
_NEEDS = {
    "analysis/plotting.py": ("matplotlib", "networkx"),
    "engine/triton": ("triton",),
    "tgp": ("tgp", "torch_scatter"),
}

collect_ignore = [path for path, names in _NEEDS.items() if not all(map(find_spec, names))]
