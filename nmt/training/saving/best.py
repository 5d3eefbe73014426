"""Selection of the weights to translate with: the best checkpoint, or at the end the average of the last ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nmt.errors import CheckpointError, UnsafeFileError
from nmt.evaluate.metrics import no_match_note
from nmt.files.write import replace_file
from nmt.runs.checkpoint import assign, save_checkpoint
from nmt.runs.info import Selected, Weights, write_selected
from nmt.runs.log import is_validation, number, read_log
from nmt.runs.state import update_state
from nmt.runs.weights import average, steps_to_average
from nmt.training.report.alarms import collapse_alarm
from nmt.training.report.log import TrainingLog, clock
from nmt.training.report.meter import Meter
from nmt.training.session import Session
from nmt.training.validate import Validation


def check(session: Session, log: TrainingLog) -> None:
    """Validate the current weights, and their moving average if there is one.

    The best score so far makes this checkpoint the best, if it is saved.
    Raises Interrupted if the run is stopped meanwhile; the state is then unchanged.
    """
    state, settings = session.state, session.config.training
    kinds: tuple[Weights, ...] = ("raw",) if session.ema is None or state.step == 0 else ("raw", "ema")
    validations: dict[Weights, Validation] = {}
    for kind in reversed(kinds):  # raw last: its model is the one shown below
        model = session.to_validate(kind)
        validations[kind] = session.validator.validate(model, session.stop.poll)
    is_better = False
    for kind in kinds:
        score = validations[kind].score(settings.selected_by)
        if math.isfinite(score) and (state.best_score is None or score > state.best_score):
            is_better = True
            if session.saver.saved_step == state.step > 0:
                state.best_score, state.best_step, state.best_weights = score, state.step, kind
    if is_better:
        state.checks_since_best = 0
    elif state.step % settings.validate_every_steps == 0:  # the one at the end of a run does not count for patience
        state.checks_since_best += 1
    state.last_check = state.step
    for kind in kinds:
        _record(session, log, validations[kind], kind)
    if samples := session.validator.samples(validations["raw"]):
        log.board.samples(state.step, samples)
    if attention := session.validator.attention(model):
        log.board.attention(state.step, *attention)


def select_best(session: Session) -> None:
    """Make `nmt translate` use the best checkpoint so far; while there is none, the last."""
    state = session.state
    if state.best_step is not None:
        write_selected(session.run, _best(session))
    else:
        session.run.selected.unlink(missing_ok=True)


def select_at_end(session: Session, meter: Meter, limit: str | None) -> None:
    """Average the last checkpoints, and make `nmt translate` use the average if it scores better than the best one.

    `limit` is the setting of `training` that has ended the run. Raises Interrupted if the run is stopped meanwhile,
    OSError or CheckpointError if the disk is full.
    """
    state, settings, run, log = session.state, session.config.training, session.run, meter.log
    selected = _best(session)
    steps = steps_to_average(run, settings, state.step)
    try:
        tensors = average(run, steps)
    except CheckpointError as error:
        log.say(f"checkpoints are not averaged: {error}")
        steps = []
    if len(steps) > 1:
        model = session.to_validate("raw")
        assign(model, tensors, str(run.average.path))
        validation = session.validator.validate(model, session.stop.poll)
        score = validation.score(settings.selected_by)
        save_checkpoint(run.average, tensors, None, {"steps": steps, settings.selected_by: abs(score)})
        meter.resume()
        _record(session, log, validation, "average")
        selected = selected.model_copy(update={"average_steps": steps})
        if math.isfinite(score) and (state.best_score is None or score > state.best_score):
            reason = (
                f"average of the checkpoints at steps {', '.join(map(str, steps))}, {settings.selected_by} "
                f"{abs(score):.4g} on the development set; not averaged: {_reason(session)}"
            )
            selected = selected.model_copy(update={"weights": "average", "reason": reason})
    log.sync()  # first, since after the next lines a resume has nothing left to do
    meter.resume()
    # the time it took; log_bytes stays, so that a resumed run with a higher limit overwrites these records
    update_state(run.step(state.step), state)
    write_selected(run, selected.model_copy(update={"finished_step": state.step, "finished_by": limit}))
    log.say(f"selected: {selected.reason} ({clock(state.seconds)} in all)")
    for line in _warnings(session):
        log.say(f"warning: {line}")


def _warnings(session: Session) -> Iterator[str]:
    """Yield what the validations of the whole run say against its weights."""
    selected_by, records = session.config.training.selected_by, [*filter(is_validation, read_log(session.run.log))]
    found = [
        (number(each, "step"), -score if selected_by == "loss" else score)
        for each in records
        if (score := number(each, selected_by)) is not None
    ]
    start = max((score for step, score in found if step == 0), default=-math.inf)
    if start > max((score for step, score in found if step), default=math.inf):
        yield (
            f"the weights that the run started with scored better, {selected_by} {abs(start):.4g}: use these, or start "
            "another run with a lower training.peak_lr or more text"
        )
    bleu = [score for each in records if (score := number(each, "bleu")) is not None]
    yield from filter(None, [no_match_note(max(bleu, default=math.inf))])


def _best(session: Session) -> Selected:
    """Return the best checkpoint so far."""
    state = session.state
    return Selected(best_step=state.best_step, weights=state.best_weights, reason=_reason(session))


def _reason(session: Session) -> str:
    state, selected_by = session.state, session.config.training.selected_by
    if state.best_score is None:
        return "last checkpoint: no checkpoint that is kept has been validated"
    of = ", moving average" if state.best_weights == "ema" else ""
    score = f"{selected_by} {abs(state.best_score):.4g} on the development set"
    return f"best checkpoint, step {state.best_step}{of}, {score}"


def _record(session: Session, log: TrainingLog, validation: Validation, kind: Weights) -> None:
    """Log a validation and write its translations, if there are some."""
    state, language = session.state, session.config.data.tgt
    where = {"step": state.step, "epoch": state.epoch, "minutes": state.seconds / 60}
    losses = {"loss": validation.loss, "nll": validation.nll}  # validation is without smoothing
    scores = {"perplexity": validation.perplexity, "accuracy": validation.accuracy, **validation.scores}
    log.log({"kind": "valid" if kind == "raw" else kind, **where, **losses, **scores})
    if not validation.translations:
        return
    alarm = collapse_alarm(session.validator.src_lines, validation.translations)
    if alarm is not None:
        log.warn(state, alarm)
    step = f"step-{state.step:08d}"
    name = {"raw": step, "ema": f"{step}-ema", "average": "average"}[kind]
    path = session.run.dev / f"{name}.{language}"
    try:
        replace_file(path, "".join(f"{line}\n" for line in validation.translations), may_follow=False)
    except OSError as error:
        log.say(f"warning: {path}: cannot be written: {error.strerror}; training continues")
    except UnsafeFileError as error:
        log.say(f"warning: {error}; training continues")
