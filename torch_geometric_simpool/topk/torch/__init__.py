"""The backend `'torch'` of the top k."""
