"""Time and memory of the operators, beside those of others."""
