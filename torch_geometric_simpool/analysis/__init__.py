"""Metrics of assignments, and a callback that records them during training."""
