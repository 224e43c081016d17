"""The text of RESULTS.md."""

import json
import os
import re
from collections import Counter
from pathlib import Path

from harness.report.nested import choices_table, nested_section
from harness.report.plots import CAPTIONS, draw_table
from harness.report.statistics import LAST, markdown
from harness.report.tables import locality_section, section, summary
from harness.store import Store
from harness.study.declarations import Experiment
from harness.study.experiments import EXPERIMENTS, LOCALITY, NESTED
from harness.study.nested import Results, asked, splits_of

HERE = Path(__file__).resolve().parents[2]
HEAD = """# Results of the study

Made by `benchmark/report.py` from the runs in `{runs}`, which `benchmark/study.py` makes; the
commands are at the end. **{count} runs are there{failed}{others}; not run yet are {missing} of
protocol 'paper', {nested} of protocol 'nested'**. Rows without a finished run are shown as
'not run', and the others count their folds.
"""
READING = f"""## How to read the tables

There are three protocols, and accuracies of one are not comparable with those of another. One
table shows the first two side by side:

- **paper**: stratified 10 folds; of each, the highest validation accuracy over the epochs. This is
  optimistic for every method, since the epoch is selected on the data that is reported. The tables
  of the paper, Shulman (2020), use it. A 'single split' is the first of these folds, as the paper
  has one. Where more have been run, the mean over the first three shows the effect of chance (a
  split of ENZYMES has about 60 graphs, so that a graph is 0.017).
- **nested**, that of Errica et al. (2020), 'A fair comparison of graph neural networks for graph
  classification': 10 outer folds to test on; settings selected by the validation accuracy of one
  inner holdout; 3 final runs for each fold, each tested at the epoch of its best validation
  accuracy; the mean over folds of the mean of 3. *Splits* 'file-...' are those of a file that was
  given, such as the published ones, by its checksum; 'seeded' ones are drawn. 'Published' are
  accuracies in the literature by this protocol.
- **tested**: the first outer folds of protocol nested, with one run for each, in settings that were
  fixed beforehand. The accuracy is on the test graphs, at the epoch of the best accuracy on the
  inner holdout. Tables of similar nodes without numbers use it. Their networks have batch norm,
  whose statistics are recomputed on the training graphs before each evaluation.

All methods of a table have the same graphs, folds, node features, epochs, batch size and, by
protocol 'paper', learning rate, unless the table varies it. Training amplifies rounding: the same
run may differ by several graphs on another CPU, or with another version. Of the final runs of
ENZYMES, 21 with a pooling were made again by a later version of this package: on 60 test graphs
they differ by up to seven, and 18 of the baseline by none.

The columns:

- Accuracies are mean ± standard deviation over folds; the latter is that of NumPy, which divides by
  the number of folds.
- **Difference** is the mean difference of accuracies to the first row over the folds that both
  have, and **difference to nopool** that to the network without pooling (`nopool`, or that of
  tgp). p is that of the corrected resampled t-test of Nadeau and Bengio (2003), which allows for
  folds that share training graphs; there is none under three folds, or where all folds differ by
  one number other than zero.
- p values in the tables are not corrected for their number. Where a column has several, the
  line below the table says which are below 0.05 after the correction of Holm (1979), which rows
  are ahead, and which behind. Each column is corrected by itself, and each table by
  itself, so one comparison may be significant in one table and not in another. Every further
  method adds a p value, so that others can stop being significant.
- A **vote** is by the mean of the class probabilities of the final runs of a fold, and **vote to
  single runs** its difference to their mean accuracy. **Difference to ENZYMES-nested**, or
  DD-nested, is that of a method to itself in the table with fewer choices; the final runs of both
  were trained apart, also where they have the same settings.
- **Best validation accuracies by choice**, below a table of protocol 'nested', are those of one run
  for each fold whose final runs are all there. *Selected* are the highest of each fold. *Selected,
  trained again* are the means of its final runs, which have the same settings and validation
  graphs, but other initial weights and another order of the training graphs: the amount by which
  the first are higher estimates how optimistic the selection is.
- **Last {LAST} epochs** is the mean validation accuracy of these. No epoch is selected in it, so it
  is not optimistic, but lower where a network still learns or the accuracy varies. It is not
  compared by tests.
- **s** is the median of the CPU seconds of a run with one thread, where they were recorded. They
  include structural features and the measures of clusters, which are no part of an epoch. Runs
  with 'memory kept' (at the end) spend less time in the system, and those with 'denormals flushed'
  do not get slower as assignments harden. The median is over the runs with both, where there are
  some; a star is beside others, which may be of several kinds, so only compare rows without one.
- **Clusters used**, in plots and texts, are those that are the most probable one of at least one
  node. Soft assignments are not seen in it.
- **Edges inside** is the share of edges with both ends in one cluster of level 0, **by chance**
  that of all pairs of nodes. **Distance ratio** is the mean distance of two nodes of a cluster
  over that of two nodes of the graph: below 1, clusters are local. **Connected** and **evenness**
  are in `torch_geometric_simpool.analysis.locality`.
- **Lowest fold**, **folds that reach 0.9** and **in epochs**: the lowest accuracy of a fold, how
  many folds reach this one, and in which epochs they first do.

Other terms:

- `baseline` sums an MLP of the node features and is blind to edges; `nopool` sums the nodes after
  the same GNNs; `sagpool` is SAGPool_h, and `gunet` g-U-Nets. `diffpool-unnormalized` is DiffPool
  with the link loss of its paper, which PyG's default divides by the square of the number of
  nodes.
- **Widths** are factors of those of the paper's layers, unless a table says what they are.
- **Level 0** is the first of two poolings, level 1 the second.
- **C** is the structural similarity of all pairs of nodes. **Structural features** name the k nodes
  that are most similar to each node. Assignment networks read these, **node features**, or both.
- **L_E** and **L_C** are the losses of SimPool: a low L_E is for hard assignments, a low L_C for
  clusters of equal size. A **scaler** is the factor of a loss.

The **name** of a table, such as `ENZYMES-k`, is above it: `study.py --only NAME` makes its runs.
"""


def make_report(runs: Path, out: Path) -> None:
    """Writes RESULTS.md to `out`, and its plots to `results/figures` beside it."""
    results, figures = Store(runs).results, out.parent / "results" / "figures"
    notes = read_notes(HERE / "NOTES.md")
    baseline = json.loads((HERE / "results" / "locality_baseline.json").read_text("utf-8"))
    brec = json.loads((HERE / "results" / "brec.json").read_text("utf-8"))
    runs_of_paper = {run for table in EXPERIMENTS.values() for run in table.runs}
    runs_of_nested = {
        run
        for nested in NESTED.values()
        for run in asked(nested, splits_of(nested, results), results)
    }
    failed = sum(result.error is not None for result in results.values())
    others = len(results.keys() - runs_of_paper - runs_of_nested)
    head = HEAD.format(
        runs=_relative(runs, out),
        count=len(results),
        missing=len(runs_of_paper - results.keys()),
        nested=len(runs_of_nested - results.keys()),
        failed=f", {failed} of them diverged" if failed else "",
        others=f", {others} of them in no table here" if others else "",
    )
    parts = [head, f"## What the study shows\n\n{notes['summary'].strip()}", READING]
    parts.append(summary(results))

    for name, table in EXPERIMENTS.items():
        picture = plot(table, results, figures, out)
        parts += [section(table, results), picture, notes.get(name, "")]
    for name, table in LOCALITY.items():
        text = locality_section(table, results, baseline["tables"].get(name, {}))
        parts += [text, plot(table, results, figures, out), notes.get(name, "")]
    parts += [brec_section(brec), notes["BREC"]]
    for name, nested in NESTED.items():
        choices = choices_table(nested, results)
        parts += [nested_section(nested, results), choices, notes.get(name, "")]
    parts.append(made_with(results))
    text = "\n".join(part.strip() + "\n" for part in parts if part.strip())
    out.write_text(text, encoding="utf-8")
    print(f"{len(results)} runs; see {out}")


def read_notes(path: Path) -> dict[str, str]:
    """Returns the paragraphs under each heading `## NAME`."""
    pieces = re.split(r"^## (\S+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def brec_section(counts: dict[str, dict[str, int]]) -> str:
    """Returns the table of pairs of graphs that color refinement and a network tell apart."""
    rows = [
        {"": name, "all": str(sum(row.values()))}
        | {category: str(row.get(category, "-")) for category in counts["pairs"]}
        for name, row in counts.items()
    ]
    return (
        "## BREC: pairs of graphs that color refinement and a network tell apart\n\n"
        "`study.py --brec`. In color refinement, the next color of a node is its color and the "
        "multiset of the colors and the entries of all nodes, until no color is split. A network "
        "has four `GMNConv` with the entries as edge features, and is trained for each pair by "
        "the protocol of BREC. 'pairs' is the number of pairs.\n\n" + markdown(rows)
    )


def plot(table: Experiment, results: Results, figures: Path, out: Path) -> str:
    """Draws the plot of a table; returns the line that shows it, if there is one."""
    path = draw_table(table, results, figures)
    return f"![{CAPTIONS[table.plot or '']}]({_relative(path, out)})" if path else ""


def made_with(results: Results) -> str:
    """Returns the versions and hardware of the runs, and the commands that repeat them."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for result in results.values():
        versions = ", ".join(f"{name} {v}" for name, v in result.versions.items())
        place = "{device}, {cpus} CPUs ({threads} thread)".format(**result.hardware)
        flags = (name for name in ("memory", "denormals") if name in result.hardware)
        place += "".join(f", {name} {result.hardware[name]}" for name in flags)
        counts[versions, place, (result.commit or "unknown")[:10]] += 1
    rows = [
        {"runs": str(n), "versions": versions, "hardware": hardware, "commit": commit}
        for (versions, hardware, commit), n in counts.most_common()
    ]
    return f"""## Made with

{markdown(rows)}

```
python benchmark/study.py --root data --workers 2    # --splits PATH: published splits
python benchmark/report.py
```"""


def _relative(path: Path, page: Path) -> str:
    """Returns a relative link in a page, which stays valid if both files are moved."""
    return Path(os.path.relpath(path.resolve(), page.resolve().parent)).as_posix()
