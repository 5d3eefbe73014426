"""The reports of rank 0 on a run: what it says before the first update, and the meter that the loop feeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from nmt.data.modifiers import N_TRIED, Modifiers
from nmt.evaluate.metrics import looks_tokenized
from nmt.training.limits import check_is_due
from nmt.training.report.log import TrainingLog
from nmt.training.report.meter import Meter
from nmt.training.report.profile import Profile
from nmt.training.session import Session


@contextmanager
def reporting(session: Session, profile: bool) -> Iterator[Meter]:
    """Context of a training: a meter that reports to an open log, with a profile of a few steps if asked for."""
    state, settings, run = session.state, session.config.training, session.run
    is_checked = not check_is_due(session)
    with TrainingLog(run, state.step, state.log_bytes, is_checked, settings.max_steps, state.log_waiting) as log:
        announce(session, log)
        tracing = Profile(settings, session.device, state.step, run.trace, log) if profile else nullcontext()
        try:
            with tracing as profiler:
                yield Meter(session, log, profiler)
        except KeyboardInterrupt:
            log.say(
                f"interrupted at step {state.step}; nmt train --resume continues from step {session.saver.saved_step}"
            )
            raise


def announce(session: Session, log: TrainingLog) -> None:
    """Say what is about to be trained, on what, and where it is written."""
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    n_learned = sum(parameter.numel() for parameter in session.model.parameters() if parameter.requires_grad)
    pairs = "lines" if session.config.learns_lines else "pairs"
    n_pairs = session.windows.n_examples
    learned = "" if n_learned == n_parameters else f" ({n_learned:,} of them learned)"
    log.say(
        f"{session.config.data.direction}: {n_pairs:,} {pairs}, {n_parameters:,} parameters{learned}, "
        f"{session.precision} on {session.device.type}{' packed' if session.packing else ''}, into {session.run.path}"
    )
    if isinstance(session.modifiers, Modifiers):
        announce_modifiers(session, session.modifiers, log)
    if looks_tokenized(session.validator.references):
        log.say(
            "the development set looks tokenised: its BLEU here is of text that is tokenised once more; "
            "nmt evaluate --tokenize none scores it as it stands"
        )
    if session.forward is not None:
        log.say("compiling the model first: its first updates take a minute or more (training.compile)")
    if session.state.step:
        log.say(f"resuming from step {session.state.step}")


def announce_modifiers(session: Session, modifiers: Modifiers, log: TrainingLog) -> None:
    """Say which modifiers are on, and log an example of each; say which have no effect."""
    rates = ", ".join(f"{name} {rate:g}" for name, rate in modifiers.rates.items())
    log.say(f"modifiers: {rates} (shares of the pairs; log.jsonl has an example of each)")
    n_tried = min(len(session.pairs), N_TRIED)
    for name, example in modifiers.examples(session.pairs).items():
        if example is None:
            log.say(f"warning: training.modifiers.{name} has no effect on any of {n_tried} pairs that were tried")
        elif session.state.step == 0:
            record = {"kind": "modifier", "step": 0, "minutes": 0.0, "modifier": name}
            log.log({**record, "src": example[0], "tgt": example[1]})
