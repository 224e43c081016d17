"""The public operators: arguments are checked once, then it is batched PyTorch."""
