"""The tables of the results of `topk.py`."""

from typing import Any

from harness.speed.topk_cases import DATASETS


def line_of(row: dict[str, Any]) -> str:
    """One line about a row."""
    return (
        f"{row['graph']} {row['method']} k={row['k']} threads={row['threads']}: "
        f"{row['seconds']:.3f} s ({row['fastest']:.3f} to {row['slowest']:.3f}), "
        f"peak {row['peak_mib']:.0f} MiB, output {row['output_mib']:.0f} MiB"
    )


def markdown(results: dict[str, Any]) -> str:
    """The table of all rows, with the ratio to the package at equal k and threads."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    commits = ", ".join(dict.fromkeys(str(row["commit"]) for row in results["rows"]))
    lines = [
        "# Top k of structural similarity: time and memory",
        "",
        f"{results['cpu']}, {results['hardware']['cpus']} processors; {versions}. Commit "
        f"{commits}. GPU: {results['gpu']}. Median of the runs, with the fastest and the slowest; "
        "from `edge_index` to values and indices of the rows asked for, of a data set from "
        "data objects to data objects (the others: to the two arrays of all its graphs). "
        "'Product' is the call of sparse_dot_topn, SciPy's product, or the query of a prepared "
        "graph (simpool_index), alone. Peak memory is "
        "beyond the input, the output included. Ratio: the time over that of simpool.",
        "",
        "| graph | products | method | k | threads | seconds | range | runs | product | "
        "peak MiB | output MiB | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    own = {
        (row["graph"], row["k"], row["threads"]): row["seconds"]
        for row in results["rows"]
        if row["method"] == "simpool"
    }
    for row in results["rows"]:
        product = "" if row["product_seconds"] is None else f"{row['product_seconds']:.3g}"
        ratio = row["seconds"] / own[row["graph"], row["k"], row["threads"]]
        lines.append(
            f"| {row['graph']} | {row['products']:.3g} | {row['method']} | {row['k']} | "
            f"{row['threads']} | {row['seconds']:.3g} | {row['fastest']:.3g} to "
            f"{row['slowest']:.3g} | {row['runs']} | {product} | {row['peak_mib']:.0f} | "
            f"{row['output_mib']:.0f} | {ratio:.2f} |"
        )
    return "\n".join(lines) + "\n"


def summary(results: dict[str, Any]) -> list[str]:
    """The table of the documentation: seconds, and the ratios of the other methods to them.

    On a data set, the dense formula is compared with the time from data objects to data objects,
    and the others with that from edges to arrays.
    """
    found = {
        (row["graph"], row["k"], row["threads"], row["method"]): row for row in results["rows"]
    }
    lines = []
    for graph, k in dict.fromkeys((row["graph"], row["k"]) for row in results["rows"]):
        edges = "simpool_edges" if graph in DATASETS else "simpool"
        cells = [graph, str(k)]
        for threads in (1, 2):
            own = found.get((graph, k, threads, "simpool"))
            cells.append("" if own is None else f"{own['seconds']:.3g}")
        for method, threads, ours in (
            ("sparse_dot_topn", 1, edges),
            ("sparse_dot_topn", 2, edges),
            ("scipy", 1, edges),
            ("dense", 1, "simpool"),
        ):
            own = found.get((graph, k, threads, ours))
            other = found.get((graph, k, threads, method))
            ratio = None if own is None or other is None else other["seconds"] / own["seconds"]
            cells.append("" if ratio is None else f"{ratio:.1f}")
        peak = found.get((graph, k, 2, "simpool"))
        cells.append("" if peak is None else f"{peak['peak_mib']:.0f} / {peak['output_mib']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
        queries = [found.get((graph, k, threads, "simpool_index")) for threads in (1, 2)]
        if any(queries):
            cells = ["" if row is None else f"{row['product_seconds']:.3g}" for row in queries]
            cells = [f"{graph}, of a prepared graph", str(k), *cells, *5 * [""]]
            lines.append("| " + " | ".join(cells) + " |")
    return lines
