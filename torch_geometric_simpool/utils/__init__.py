"""Checks of arguments and rules of rounding, for all other rooms."""
