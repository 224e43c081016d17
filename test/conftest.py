"""What all tests share."""

import pytest
import torch

# The graphs are tiny: a second thread only waits, longer than the work takes on a busy machine.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """So that a failure comes back, alone or in the whole run."""
    torch.manual_seed(20200611)
