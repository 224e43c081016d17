"""The optional import of TensorBoard."""

from pathlib import Path
from typing import Any, Union


def summary_writer(log_dir: Union[str, Path]) -> Any:
    """A `SummaryWriter` for the folder, or an error that says what is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "`log_dir` was given, but TensorBoard is not installed: `pip install tensorboard`, or "
            "leave `log_dir` out"
        ) from error
    return SummaryWriter(str(log_dir))
