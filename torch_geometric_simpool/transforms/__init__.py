"""PyG transforms, and what they are made of."""
