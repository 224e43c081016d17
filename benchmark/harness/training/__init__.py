"""Training and evaluation on one fold."""
