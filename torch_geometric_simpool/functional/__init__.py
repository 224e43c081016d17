"""The public operators. They check their arguments once, and compute in batched PyTorch."""
