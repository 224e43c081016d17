"""The error of a benchmark whose message is for its user: printed without a traceback."""


class BenchmarkError(Exception):
    """A problem that the user can solve: an option, a file, a folder."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where there is no message."""
    return (str(error) or type(error).__name__).splitlines()[0]
