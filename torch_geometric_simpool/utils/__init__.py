"""What all layers may use: checks of arguments, batching, budgets, scaling, settings."""
