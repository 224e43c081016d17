"""Used by all other packages: checks of arguments, batching, memory budgets, scaling."""
