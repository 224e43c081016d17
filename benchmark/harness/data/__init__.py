"""Data sets, their checks, splits and batches."""
