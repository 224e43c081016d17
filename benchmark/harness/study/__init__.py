"""The study: what its runs are, which there are, and the processes that run them."""
