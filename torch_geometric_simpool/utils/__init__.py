"""What every room may use: checks of arguments, batching, memory budgets, scaling."""
