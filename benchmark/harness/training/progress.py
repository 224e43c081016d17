"""How far a fold is: a bar on a terminal, a line every few epochs in a file."""

import sys

from tqdm import tqdm

#: How many lines a fold writes, roughly.
LINES = 20


class Progress:
    """Shows the epochs of a fold on the standard error."""

    def __init__(self, label: str, epochs: int, done: int) -> None:
        self.label, self.epochs = label, epochs
        self.every = max(epochs // LINES, 1)
        self.bar = tqdm(total=epochs, initial=done, desc=label, disable=None)
        if self.bar.disable and done > 0:
            self._print(f"goes on after epoch {done}")

    def show(self, epoch: int, metrics: dict[str, str]) -> None:
        """Shows the metrics of an epoch, counted from 1."""
        self.bar.set_postfix(metrics, refresh=False)
        self.bar.update()
        if self.bar.disable and (epoch % self.every == 0 or epoch in (1, self.epochs)):
            shown = ", ".join(f"{name} {value}" for name, value in metrics.items())
            self._print(f"epoch {epoch} of {self.epochs}: {shown}")

    def close(self) -> None:
        """Ends the bar, so that other output follows on a line of its own."""
        self.bar.close()

    def _print(self, text: str) -> None:
        print(f"{self.label}: {text}", file=sys.stderr, flush=True)
