"""The files of a run before its first update: config.yaml, the tokenizer, and run.json."""

from __future__ import annotations

from dataclasses import asdict

from nmt.config.load import dump_config
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.data.modifiers import Modifiers
from nmt.errors import NmtError
from nmt.files.write import replace_file, sync
from nmt.layout import RUN_FORMAT, RunDir
from nmt.runs.info import InitialWeights, RunInfo, launch, write_info
from nmt.text.tokenizer import Tokenizers
from nmt.training.session import Session
from nmt.training.setup.choices import Choices
from nmt.training.setup.preflight import check_disk


def write_run(session: Session, corpus: Corpus, choices: Choices, initial: InitialWeights | None, resume: bool) -> None:
    """Make the run directory, or update that of a resumed run. run.json comes last: it makes the directory a run.

    Raises CheckpointError if a new run's checkpoints do not fit on the disk, OSError if writing fails.
    """
    run = session.run
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    message = check_disk(run, n_parameters, session.config.training, resume)
    if message is not None:
        say(message)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not resume or not _has_tokenizer(run, corpus):
        corpus.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(session.config))
    glossary = session.modifiers.glossary if isinstance(session.modifiers, Modifiers) else None
    optional = {**asdict(choices), "glossary": glossary, "initial": initial, "launch": launch()}
    info = RunInfo(
        format=RUN_FORMAT,
        data_dir=str(corpus.directory.path.resolve()),
        corpus=corpus.fingerprint,
        tokenizer=corpus.tokenizers.fingerprint,
        **{key: value for key, value in optional.items() if value is not None},
    )
    write_info(run, info)


def _has_tokenizer(run: RunDir, corpus: Corpus) -> bool:
    """Whether the run's own copy of the tokenizer is complete; if not, say so."""
    try:
        if Tokenizers.load(run.tokenizer, corpus.languages).fingerprint == corpus.tokenizers.fingerprint:
            return True
    except NmtError:
        pass
    say(f"{run.tokenizer.path}: missing or damaged; it is copied from the data directory again")
    return False
