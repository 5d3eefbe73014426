"""Saving of checkpoints, selection of the best one, and the end of a run. All functions run on rank 0."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import Literal, NoReturn

from nmt.errors import CheckpointError, DivergedError, StoppedError, UnsafeFileError
from nmt.evaluate.metrics import default_tokenizer, no_match_note, use_of
from nmt.evaluate.samples import sample_lines
from nmt.files.write import refuse_links, remove, replace_file
from nmt.layout import CheckpointDir, RunDir
from nmt.model.transformer import Model
from nmt.process import Interrupted
from nmt.runs.checkpoint import (
    Tensors,
    assign,
    average,
    load_ema,
    load_weights,
    recent_steps,
    save_checkpoint,
    steps_to_average,
)
from nmt.runs.info import Selected, Weights, write_selected
from nmt.runs.log import best_scores
from nmt.runs.state import TrainState, load_state, saved_steps, update_state
from nmt.training.limits import End, cut_short, ended_by, resume_command
from nmt.training.report.changes import changes
from nmt.training.report.log import TrainingLog, clock, position
from nmt.training.report.meter import Meter, collapse_alarm
from nmt.training.session import Session
from nmt.training.validate import Validation, Validator


def save(session: Session, meter: Meter, is_extra: bool = False) -> None:
    """Write a checkpoint from which a run can be resumed, and remove the checkpoints that are no longer needed.

    On a GPU a thread writes it; see `report_saved`. An `is_extra` checkpoint is outside the regular schedule, because
    the run stops. If the disk is full, a warning is logged and the next save tries again.
    """
    report_saved(session, meter)
    state = session.state
    saver = session.saver
    state.is_extra = is_extra
    meter.settle()
    state.scaler = session.scaler.state_dict()
    weights = session.full("raw")
    moments = session.full("moments")
    ema = None if session.ema is None else session.full("ema")
    try:
        state.log_bytes = meter.log.sync()
        state.log_waiting = meter.log.waiting
    except (OSError, UnsafeFileError) as error:
        _warn(session, meter, state.step, error)
        return
    copies = saver.copied(weights), saver.copied(moments), asdict(state), ema and saver.copied(ema)
    saver.write(state.step, partial(save_checkpoint, session.run.step(state.step), *copies))
    report_saved(session, meter, must_wait=False)


def report_saved(session: Session, meter: Meter, must_wait: bool = True) -> None:
    """Report a checkpoint that has been written, and remove the checkpoints that are no longer needed."""
    outcome = session.saver.outcome(must_wait)
    if outcome is None:
        return
    step, error = outcome
    if error is not None:
        _warn(session, meter, step, error)
        return
    if session.save_failed:
        meter.log.say(f"step {step} is saved")
    session.save_failed = False
    tidy(session, meter)


def _warn(session: Session, meter: Meter, step: int, error: OSError | UnsafeFileError) -> None:
    meter.log.warn(
        session.state,
        f"step {step} is not saved: {_reason_of(error, session)}; training continues and the next save tries again; "
        f"the last saved step is {session.saver.saved_step}",
    )
    session.save_failed = True


def save_state(session: Session, meter: Meter) -> None:
    """Add the results of a validation to the state of the checkpoint of this step, which has already been saved."""
    report_saved(session, meter)
    state = session.state
    if session.saver.saved_step != state.step or state.step == 0:  # there is no checkpoint of the start
        return
    try:
        state.log_bytes = meter.log.sync()
        state.log_waiting = meter.log.waiting
        update_state(session.run.step(state.step), state)
    except (OSError, CheckpointError) as error:
        meter.log.warn(state, f"the validation is not saved: {_reason_of(error, session)}")
        return
    tidy(session, meter)


def tidy(session: Session, meter: Meter) -> None:
    """Make `nmt translate` use the best checkpoint so far, and remove the checkpoints that are no longer needed."""
    state = session.state
    try:
        if state.best_step is not None:
            write_selected(session.run, _best(session))
        else:
            session.run.selected.unlink(missing_ok=True)
        rotate(session.run, session.settings.keep_last, state.step, state.best_step)
    except (OSError, UnsafeFileError) as error:
        meter.log.warn(
            state,
            f"step {state.step} is saved, but clean-up failed: {_reason_of(error, session)}; the next save tries again",
        )


def rotate(run: RunDir, keep_last: int, step: int, best_step: int | None) -> None:
    """Remove all checkpoints except the newest `keep_last` up to `step` and the best; the newest two stay resumable.

    A checkpoint after `step` was written before the run was resumed from an earlier one. An extra checkpoint is no
    longer needed once there is a later one.
    """
    recent = recent_steps(run, step)[-keep_last:]
    refuse_links([run.checkpoints])
    for saved in saved_steps(run):
        if saved not in recent and saved != best_step:
            remove(run.step(saved).path)
            continue
        refuse_links([run.step(saved).path])
        if saved not in recent[-2:]:
            run.step(saved).optimizer.unlink(missing_ok=True)
        if saved not in recent:
            _mark_extra(run.step(saved))
    for unfinished in run.checkpoints.glob("*.part*"):  # an interrupted save
        remove(unfinished)


def _mark_extra(source: CheckpointDir) -> None:
    with suppress(CheckpointError):  # a damaged one is reported when it is read
        state = load_state(source)
        if not state.is_extra:
            update_state(source, replace(state, is_extra=True))


def _reason_of(error: Exception, session: Session) -> str:
    """Return the file and the reason of an OS error."""
    return f"{error.filename or session.run.path}: {error.strerror}" if isinstance(error, OSError) else str(error)


def validate(session: Session, log: TrainingLog) -> None:
    """Validate the current weights, and their moving average if there is one.

    If the score is the best so far and this step is saved, its checkpoint becomes the best.
    Raises Interrupted if the run is stopped meanwhile; the state is then unchanged.
    """
    state = session.state
    validations: dict[Weights, Validation] = {}
    for kind in _KINDS if session.ema is not None and state.step else _KINDS[:1]:
        validations[kind] = session.validator.validate(session.to_validate(kind), session.stop.poll)
    scores = {kind: validation.score(session.selected_by) for kind, validation in validations.items()}
    better = max(scores, key=scores.__getitem__)
    watched = _watched(session, session.to_validate(better)) if session.watched else {}
    is_better = False
    for kind, score in scores.items():
        if _is_best(state, score):
            is_better = is_better or state.start_score is None or score > state.start_score
            if session.saver.saved_step == state.step > 0:
                state.best_score = score
                state.best_step = state.step
                state.best_weights = kind
    if state.step == 0:
        state.start_score = scores["raw"]
    if is_better:
        state.checks_since_best = 0
    elif state.step % session.settings.validate_every_steps == 0:  # patience ignores an extra one at the end of a run
        state.checks_since_best += 1
    state.last_check = state.step
    for kind, validation in validations.items():
        _record(session, log, validation, kind)
    _record_watched(session, log, watched, better)


_KINDS: tuple[Weights, ...] = ("raw", "ema")


def _is_best(state: TrainState, score: float) -> bool:
    return math.isfinite(score) and (state.best_score is None or score > state.best_score)


def _watched(session: Session, model: Model) -> dict[str, Validation]:
    """Score the test sets of training.watch."""
    return {name: validator.validate(model, session.stop.poll) for name, validator in session.watched.items()}


def _record_watched(session: Session, log: TrainingLog, watched: Mapping[str, Validation], kind: Weights) -> None:
    """Log the scores of the test sets of training.watch, and how BLEU has changed since step 0."""
    state = session.state
    validations: dict[str, Validation] = {}
    for name, validation in watched.items():
        validations |= {f"{name}/{direction}": part for direction, part in validation.by_direction.items()}
        validations[name] = validation
    for name, validation in validations.items():
        bleu = validation.scores["bleu"]
        scores = {"perplexity": validation.perplexity, **validation.scores}
        if state.step == 0:
            state.watched_start[name] = bleu
        if name in state.watched_start:  # not if it is watched only since the run was resumed
            scores["change"] = bleu - state.watched_start[name]
        log.log({"kind": f"watch/{name}", **position(session), "weights": kind, **scores})


def select_at_end(session: Session, meter: Meter, limit: str | None) -> None:
    """Average the last checkpoints, and make `nmt translate` use the average if it scores better than the best one.

    `limit` is the setting of `training` that has ended the run. Raises Interrupted if the run is stopped meanwhile, and
    OSError or CheckpointError if the disk is full.
    """
    state = session.state
    settings = session.settings
    run = session.run
    log = meter.log
    selected, score = _with_average(session, meter)
    if settings.start_share:
        selected, score = _with_start(session, meter, selected)
    step = state.step if selected.weights == "average" else _best_step(state)
    scores: Mapping[str, float] = {
        name: best_scores(run, name, step).get(selected.weights, math.nan) for name in settings.facts.scores
    }
    stem = _stem(selected.weights, step)
    all_lines = session.validator.at_end()
    if all_lines is not session.validator:
        model = session.to_validate("raw")
        assign(model, _tensors_of(session, selected), str(run.path))
        validation = all_lines.validate(model, session.stop.poll)
        _record(session, log, validation, "final")
        scores = validation.scores
        stem = "final"
    log.sync()  # before the next lines, after which a resumed run has nothing left to do
    meter.resume()
    # saves the elapsed time; log_bytes is unchanged, so that a resumed run with a higher limit overwrites these records
    update_state(run.step(state.step), state)
    write_selected(run, selected.model_copy(update={"finished_step": state.step, "finished_by": limit}))
    log.trackers.attach_description()
    log.say(f"selected: {selected.reason} ({_times(state)})")
    if state.start_score is not None and score is not None and score <= state.start_score:
        log.say(
            f"warning: the selected weights are not better than those that the run started with, "
            f"{_scored(session, state.start_score)}; {settings.init_from} remains the better model"
        )
    if state.start_score is not None:
        directions = session.data.directions if session.data.has_several_directions else []
        for line in changes(run, directions, selected.weights, step):
            log.say(line)
    if scores.get("bleu", math.nan) >= 0:
        if note := no_match_note(scores):
            log.say(f"warning: {note}")
        if settings.facts.translates:
            _show_quality(session, log, all_lines, scores, stem)


def _times(state: TrainState) -> str:
    starting = state.seconds - state.update_seconds - state.paused_seconds
    return (
        f"{clock(state.seconds)} in all: {clock(state.update_seconds)} of updates, {clock(state.paused_seconds)} of "
        f"validations and checkpoints, {clock(starting)} of starting"
    )


def _show_quality(
    session: Session, log: TrainingLog, validator: Validator, scores: Mapping[str, float], stem: str
) -> None:
    """Print what BLEU usually means, or why it says little, and, on a terminal, some translations of the file with this
    stem."""
    tokenizer = max(map(default_tokenizer, session.data.targets))  # 13a only if all languages have it
    log.say(validator.few_four_grams or use_of(scores, len(validator.references), tokenizer))
    path = session.run.dev / f"{stem}.{session.data.tgt}"
    if sys.stderr.isatty() and path.is_file():
        translations = path.read_text(encoding="utf-8").split("\n")
        for line in sample_lines(validator.src_lines, validator.references, translations, 5):
            log.say(line)


def _with_average(session: Session, meter: Meter) -> tuple[Selected, float | None]:
    """Average the newest checkpoints; select the average if it is better than the best checkpoint, and return the score
    of the selected weights too."""
    state = session.state
    settings = session.settings
    selected = _best(session)
    # before half of a cool-down, the rate was so high that a mean with these checkpoints is worse than the last one
    halfway = sum(state.cooldown or ()) / 2
    steps = [step for step in steps_to_average(session.run, settings.average_last, state.step) if step > halfway]
    try:
        if len(steps) > 1 and state.seconds > 60 * (settings.max_minutes or math.inf):
            raise CheckpointError("training.max_minutes is over")
        tensors = average(session.run, steps)
    except CheckpointError as error:
        meter.log.say(f"checkpoints are not averaged: {error}")
        return selected, state.best_score
    if len(steps) < 2:
        return selected, state.best_score
    score = _score_mean(session, meter, tensors, {"steps": steps})
    selected = selected.model_copy(update={"average_steps": steps})
    if not _is_best(state, score):
        return selected, state.best_score
    reason = (
        f"average of the checkpoints at steps {', '.join(map(str, steps))}, {_scored(session, score)}; "
        f"not averaged: {selected.reason}"
    )
    return selected.model_copy(update={"weights": "average", "reason": reason}), score


def _with_start(session: Session, meter: Meter, selected: Selected) -> tuple[Selected, float]:
    """Interpolate the selected weights with those that the run started with; select the result, and return its score
    too."""
    start = load_weights(session.run.start)
    share = session.settings.start_share
    tensors = {name: tensor.lerp(start[name], share) for name, tensor in _tensors_of(session, selected).items()}
    score = _score_mean(session, meter, tensors, {"start_share": share})
    reason = (
        f"{share:.0%} of the weights that the run started with and {1 - share:.0%} of the {selected.reason}; together "
        f"{_scored(session, score)}"
    )
    # a rejected average has steps, too
    steps = selected.average_steps if selected.weights == "average" else [_best_step(session.state)]
    return selected.model_copy(update={"weights": "average", "reason": reason, "average_steps": [0, *steps]}), score


def _tensors_of(session: Session, selected: Selected) -> Tensors:
    """Read the selected weights."""
    if selected.weights == "average":
        return load_weights(session.run.average)
    checkpoint = session.run.step(_best_step(session.state))
    return load_ema(checkpoint) if selected.weights == "ema" else load_weights(checkpoint)


def _score_mean(session: Session, meter: Meter, tensors: Tensors, origin: Mapping[str, object]) -> float:
    """Validate a mean of weights, save it as checkpoints/average, and return its score."""
    model = session.to_validate("raw")
    average_dir = session.run.average
    assign(model, tensors, str(average_dir.path))
    validation = session.validator.validate(model, session.stop.poll)
    score = validation.score(session.selected_by)
    watched = _watched(session, model)
    save_checkpoint(average_dir, tensors, None, {**origin, session.selected_by: abs(score)})
    meter.resume()
    _record(session, meter.log, validation, "average")
    _record_watched(session, meter.log, watched, "average")
    return score


def _best_step(state: TrainState) -> int:
    """Return the step of the best checkpoint, or of the last one if none of them has been validated."""
    return state.best_step or state.step


def _best(session: Session) -> Selected:
    """Return the selection of the best checkpoint so far."""
    state = session.state
    reason = "last checkpoint: none of the kept checkpoints has been validated"
    if state.best_score is not None:
        kind = ", moving average" if state.best_weights == "ema" else ""
        reason = f"best checkpoint, step {state.best_step}{kind}, {_scored(session, state.best_score)}"
    return Selected(best_step=state.best_step, weights=state.best_weights, reason=reason)


def _scored(session: Session, score: float) -> str:
    """Return a score by which weights were selected, with what was scored."""
    n_lines = session.settings.validate_lines
    part = ""
    if n_lines:
        part = f"{min(n_lines, len(session.validator.references))} lines of "
    return f"{session.selected_by} {abs(score):.4g} on {part}the development set"


def _record(session: Session, log: TrainingLog, validation: Validation, kind: Weights | Literal["final"]) -> None:
    """Log a validation, and write its translations to files if there are any."""
    name = "valid" if kind == "raw" else kind
    for direction, part in validation.by_direction.items():
        _log(session, log, part, f"{name}/{direction}")
    _log(session, log, validation, name)
    if not validation.translations:
        return
    if kind != "final":
        _warn_of_collapse(session, log, validation)
    stem = _stem(kind, session.state.step)
    for ending, part in (validation.by_direction or {session.data.tgt: validation}).items():
        path = session.run.dev / f"{stem}.{ending}"
        try:
            replace_file(path, "".join(f"{line}\n" for line in part.translations), may_follow=False)
        except (OSError, UnsafeFileError) as error:
            reason = getattr(error, "strerror", error)
            log.say(f"warning: {path}: cannot be written: {reason}; training continues")


def _warn_of_collapse(session: Session, log: TrainingLog, validation: Validation) -> None:
    """Warn if most translations, of a direction if there are several, are alike."""
    src_lines = iter(session.validator.src_lines)
    alarms = dict[str, str]()
    for direction, part in (validation.by_direction or {"": validation}).items():
        sources = [*islice(src_lines, len(part.translations))]
        alarm = collapse_alarm(sources, part.translations) if sources else None
        if alarm is not None:
            alarms[direction] = alarm
    if alarms:
        direction, alarm = next(iter(alarms.items()))
        if len(alarms) > 1:
            direction += f" (and {len(alarms) - 1} more)"
        log.warn(session.state, f"{direction}: {alarm}" if direction else alarm)


def _stem(kind: Weights | Literal["final"], step: int) -> str:
    """Return the name, without the language, of the file of the translations of a validation."""
    return {"raw": f"step-{step:08d}", "ema": f"step-{step:08d}-ema"}.get(kind, kind)


def _log(session: Session, log: TrainingLog, validation: Validation, kind: str) -> None:
    """Write the record of a validation."""
    losses = {"loss": validation.loss, "nll": validation.nll}  # without label smoothing
    scores = {"perplexity": validation.perplexity, "accuracy": validation.accuracy, **validation.scores}
    log.log({"kind": kind, **position(session), **losses, **scores})


def finish(session: Session, meter: Meter, end: End) -> None:
    """Conclude a run that has reached a limit, or save one that is stopped early and raise StoppedError."""
    if not end.is_early:
        with suppress(Interrupted):
            _conclude(session, meter, end)
            return
    _stop_early(session, meter, session.stop.reason or end.reason)


def _conclude(session: Session, meter: Meter, end: End) -> None:
    """Save and validate the last weights, and select the weights for translation.

    Raises Interrupted if the run is stopped meanwhile, and CheckpointError if the disk is full.
    """
    state = session.state
    run = session.run
    meter.settle()
    if state.step == state.n_skipped:
        raise DivergedError(f"{run.path}: {end.reason} before anything was learned")
    meter.pause()
    meter.show(at_once=True)
    meter.log.close_bar()
    meter.log.say(f"{end.reason} after {state.step} steps")
    limit = ended_by(session)
    if missed := cut_short(session.settings, state.step, state.cooldown_start):
        command = resume_command(session)
        meter.log.say(f"warning: training has not reached {' and '.join(missed)}; to continue: {command}")
    if session.saver.saved_step != state.step:
        save(session, meter)
    if state.last_check != state.step:
        validate(session, meter.log)
        meter.resume()
        save_state(session, meter)
    report_saved(session, meter)
    if session.saver.saved_step != state.step:
        raise CheckpointError(
            f"{run.path}: the end of the run could not be saved, only step {session.saver.saved_step}; free some space "
            f"and complete the run with nmt train --resume --run {run.path}"
        )
    tidy(session, meter)
    meter.record(is_last=True)
    select_at_end(session, meter, limit)


def _stop_early(session: Session, meter: Meter, reason: str) -> NoReturn:
    """Save the run and raise StoppedError with the command that resumes it."""
    state = session.state
    meter.pause()
    if session.saver.saved_step != state.step:
        save(session, meter, is_extra=True)
    report_saved(session, meter)
    saved = "" if session.saver.saved_step == state.step else f" (the last saved step is {session.saver.saved_step})"
    raise StoppedError(
        f"stopped at step {state.step}{saved} by {reason}; nmt train --resume --run {session.run.path} continues from "
        "there"
    )
