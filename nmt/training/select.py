"""Which weights are the best: validation during the run, and the average of the last checkpoints at its end."""

from __future__ import annotations

from typing import Any

from nmt.checkpoint import assign, average, read_selected, save_checkpoint, steps_to_average, write_selected
from nmt.errors import CheckpointError
from nmt.training.log import TrainingLog, clock
from nmt.training.start import Session
from nmt.training.validate import Validation


def check(session: Session, log: TrainingLog) -> bool:
    """Validate the model as it is; returns whether it is the best so far, which the caller then saves."""
    state = session.state
    found = session.validator.validate(session.model)
    score = found.score(session.config.training.select_by)
    is_best = state.best_score is None or score > state.best_score
    if is_best:
        state.best_score, state.best_step, state.checks_since_best = score, state.step, 0
    else:
        state.checks_since_best += 1
    state.last_check = state.step
    _record(session, log, found, "valid", f"step-{state.step:08d}")
    session.validator.show(session.model, found, log, state.step)
    return is_best


def select_best(session: Session) -> None:
    """Have `translate` take the best checkpoint so far; it must have been saved."""
    state = session.state
    if state.best_step is not None:
        write_selected(session.run, {"best_step": state.best_step, "weights": "raw", "reason": _reason(session)})


def select_at_end(session: Session, log: TrainingLog) -> None:
    """Average the last checkpoints, and have `translate` take the average if it did better than the best."""
    state, settings, run = session.state, session.config.training, session.run
    selected: dict[str, Any] = {"best_step": state.best_step, "weights": "raw", "reason": _reason(session)}
    steps = steps_to_average(run, settings, state.step)
    try:
        tensors = average(run, steps)
    except CheckpointError as error:
        log.say(f"nothing is averaged: {error}")
        steps = []
    if len(steps) > 1:
        assign(session.model, tensors, str(run.average.path))
        found = session.validator.validate(session.model)
        score = found.score(settings.select_by)
        save_checkpoint(run.average, tensors, None, {"steps": steps, settings.select_by: score})
        _record(session, log, found, "average", "average")
        selected["average_steps"] = steps
        if state.best_score is None or score > state.best_score:
            selected["weights"] = "average"
            selected["reason"] = (
                f"average of steps {', '.join(map(str, steps))}, {settings.select_by} {score:.4g} on the "
                f"development set; the best single one is {_reason(session)}"
            )
    write_selected(run, {**selected, "finished_step": state.step})
    log.say(f"selected: {selected['reason']} ({clock(state.seconds)} in all)")


def finished(session: Session) -> bool:
    """Whether this run came to its end before, at the step where it stands."""
    return read_selected(session.run).get("finished_step") == session.state.step


def _reason(session: Session) -> str:
    state, select_by = session.state, session.config.training.select_by
    assert state.best_score is not None, "there was a validation"
    return f"step {state.best_step}, {select_by} {abs(state.best_score):.4g} on the development set"


def _record(session: Session, log: TrainingLog, found: Validation, kind: str, name: str) -> None:
    """Log a validation and keep its translations."""
    state, language = session.state, session.config.data.tgt
    record = {
        "kind": kind,
        "step": state.step,
        "epoch": state.epoch,
        "minutes": state.seconds / 60,
        "loss": found.loss,
        "perplexity": found.perplexity,
        "accuracy": found.accuracy,
        "bleu": found.bleu,
        "chrf": found.chrf,
    }
    log.log(record)
    text = "".join(f"{line}\n" for line in found.translations)
    (session.run.dev / f"{name}.{language}").write_text(text, encoding="utf-8")
