"""The lines on the mixture of the training corpora: the share and the passes of each, at the beginning of a stage."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.data.mixing import is_mixed
from nmt.training.session import Session


def mixture(session: Session) -> Iterator[str]:
    """Yield what the stage mixes, if the config asks for anything but each corpus by its size."""
    config, mix, state = session.config, session.windows.mix, session.state
    if not is_mixed(config):
        return
    stage, settings = mix.stages[state.stage], config.training
    n_pairs, until = stage.n_pairs, "in this stage"
    if n_pairs is None:
        n_updates = stage.n_updates
        if n_updates is None:
            n_updates, until = settings.max_steps - state.stage_step, "until training.max_steps"
        n_pairs = n_updates * mix.n_pairs // session.n_epoch_updates
    if len(mix.stages) > 1:
        yield f"stage {state.stage + 1} of {len(mix.stages)} mixes the training corpora, from step {state.stage_step}:"
    for corpus, share in zip(mix.corpora, stage.shares, strict=True):
        passes, expected = (float(share * n / corpus.n) for n in (mix.n_pairs, n_pairs))
        yield (
            f"{corpus.name} ({corpus.n:,} pairs): {float(share):.4g} of the pairs learned from, "
            f"{passes:.3g} passes an epoch, about {expected:.3g} {until}"
        )
