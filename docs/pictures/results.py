"""Reads the measurements in benchmark/results for the pictures."""

import json
from pathlib import Path

import pandas as pd

#: The end of the name of a method that builds its matrices.
FROM_EDGES = ", from edges"
RESULTS = Path(__file__).parent.parent.parent / "benchmark" / "results"


def top_k_times() -> pd.DataFrame:
    """Returns seconds of the top k by case and number of threads (rows) and by method (columns)."""
    rows = json.loads((RESULTS / "topk.json").read_text(encoding="utf-8"))["rows"]
    times = pd.DataFrame(rows).set_index(["case", "threads", "method"])["seconds"]
    times = times[~times.index.duplicated(keep="last")].unstack("method")
    prepared = times.dropna(subset="index").assign(simpool=lambda table: table["index"])
    prepared = prepared.rename(index=lambda case: f"{case}, from an index", level="case")
    # Beside a call from the edges, other packages build their matrices from the edges.
    for name in times.columns[times.columns.str.endswith(FROM_EDGES)]:
        peer = name.removesuffix(FROM_EDGES)
        times[peer] = times.pop(name).fillna(times[peer])
    prepared = prepared.drop(columns=prepared.columns[prepared.columns.str.endswith(FROM_EDGES)])
    return pd.concat([times, prepared]).drop(columns="index")


def runs(dataset: str, **settings: object) -> pd.DataFrame:
    """Returns the finished runs of the study with these settings, a row for each fold."""
    table = pd.read_parquet(RESULTS / "runs.parquet", filters=[("dataset", "==", dataset)])
    for name, value in settings.items():
        table = table[table[name] == value]
    return table[table["error"].isna()].drop_duplicates("fold").sort_values("fold")
