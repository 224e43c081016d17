"""PyG transforms: structural features of data objects, similarity edges, and node orders."""
