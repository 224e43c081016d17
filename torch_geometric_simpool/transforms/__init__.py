"""PyG transforms: structural features of data objects and data sets, and node orders."""
