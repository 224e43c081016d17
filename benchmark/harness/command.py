"""How a command ends: errors as messages, and the exit status."""

import os
import sys
from collections.abc import Callable
from typing import Optional

from harness.errors import BenchmarkError


def exit_status(name: str, run: Callable[[], Optional[int]], interrupted: str = "") -> int:
    """Runs a command; returns its status, or 2, 130 or 141 if it fails or is stopped.

    `interrupted` is the message after an interrupt.
    """
    try:
        return run() or 0
    except BenchmarkError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if interrupted:
            print(f"\n{interrupted}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # As in `--list | head`. Without this, flushing the output at exit fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
