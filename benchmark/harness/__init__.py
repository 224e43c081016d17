"""The package behind the commands in `benchmark/`.

A package imports only those before it; `speed` comes after `training`, beside the last two.

- `store`: files and locks, and what is stored of the machine.
- `data`: data sets, by name, their splits and batches.
- `methods`: the networks, by name (`registry.py`).
- `training`: one network on one fold, with checkpoints.
- `study`: a :class:`~harness.study.run.Run` is all that one training depends on. Tables are rows of
  runs (`experiments.py`). `work.py` makes the runs that have no file; `perform.py` makes one.
  The name of a file is the key of its run, so tables share runs, and none is made twice.
- `report`: `document.py` reads these files, and writes the tables, plots and notes in one page.
- `speed`: what other commands measure.
"""
