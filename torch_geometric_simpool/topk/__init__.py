"""The sparse top k of structural similarity."""
