"""The error of a benchmark whose message is for its user: printed without a traceback."""


class BenchmarkError(Exception):
    """Something the user can put right: an option, a file, a folder."""
