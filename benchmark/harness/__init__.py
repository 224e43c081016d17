"""The modules behind the four commands in `benchmark/`.

- `run.py`: :class:`Run`, the settings of one training, and :class:`Result`, its outcome.
- `store.py`: the Parquet file of results.
- `train.py`: trains the network of one run; `workers.py` trains several runs in processes.
- `data/`: data sets by name, splits and batches. `methods/`: networks by name.
- `study/`: the tables of the study, each of which is a list of runs.
- `report/`: the page of tables and its plots. `speed/`: measurements of time and memory.
"""
