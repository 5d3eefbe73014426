"""What a run has learned, and what it has forgotten, since the weights of another run with which it started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nmt.layout import RunDir
from nmt.runs.info import Weights, text_score
from nmt.runs.log import KINDS, number, read_log


def changes(run: RunDir, directions: Sequence[str], weights: Weights, step: int) -> Iterator[str]:
    """Yield the lines of a table of scores at step 0 and of the selected weights, for each direction of the development
    set and of each test set of training.watch.

    directions: of the run, if there are several. weights, step: the selected weights, and the step at which they were
    validated. There is no table if step 0 was not validated, or if it had a single row.
    """
    metric = text_score(run)
    before = dict[str, float]()
    after = dict[str, float]()
    for record in read_log(run.log, having=f'"{metric}"'.encode()):
        kind, _, part = str(record.get("kind")).partition("/")
        score = number(record, metric)
        if score is None or kind not in (*KINDS, "watch"):
            continue
        if directions and part.rpartition("/")[2] not in directions:
            continue  # the mean of all directions
        name = f"development set {part}".rstrip() if kind in KINDS else part.replace("/", " ")
        of_weights = KINDS.get(kind, record.get("weights"))
        at = number(record, "step")
        if at == 0:
            before[name] = score
        elif at == step and of_weights == weights:
            after[name] = score
    names = [name for name in after if name in before]
    if len(names) < 2:
        return
    width = max(map(len, names))
    yield f"{'BLEU' if metric == 'bleu' else 'chrF':<{width}}  start    now  change"
    for name in names:
        yield f"{name:<{width}}  {before[name]:5.1f}  {after[name]:5.1f}  {after[name] - before[name]:+6.1f}"
