"""The data directory of a run."""

from __future__ import annotations

from pathlib import Path

from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.data.manifest import read_contents
from nmt.errors import DataError
from nmt.languages.directions import LABEL, LanguagePair
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from nmt.text.vocabularies import Tokenizers


class OtherPairError(DataError):
    """An error for a data directory without the pair of languages of a direction."""


def open_corpus(run: RunDir, sides: LanguagePair, data_dir: Path | None, *, warn: bool = True) -> Corpus:
    """Open the corpus of a direction at `data_dir`, by default the training data of the run. If the run was trained on
    other data and `warn` is true, a message says so.

    Raises OtherPairError if it is for other languages, and DataError if it is missing, or if its tokenizer is neither
    the run's nor extends it.
    """
    info = read_info(run)
    advice = "nmt evaluate (and calibrate, challenge, robustness) also takes a text with --src and --ref"
    if data_dir is None and not info.data_dir:
        raise DataError(f"{run.path}: was imported and has no data directory; give one with --data; {advice}")
    path = data_dir or Path(info.data_dir)
    if data_dir is None and not path.is_dir():
        raise DataError(f"{path}: the data directory of {run.path} does not exist; give its new path with --data")
    contents = read_contents(DataDir(path))
    pair = "-".join(sorted(sides))
    if pair not in contents.manifests:
        problem = f"{path}: contains {', '.join(contents.manifests)}, not {'-'.join(sides)}"
        raise OtherPairError(problem if LABEL in sides else f"{problem}; {advice}")
    corpus = Corpus.of(contents, pair)
    of_run = Tokenizers.load(run.tokenizer, sides)
    of_corpus = corpus.tokenizers
    # one of them may have more tags, and the corpus more pieces, for a run that learns a new language
    is_same = of_run.with_tags(of_corpus.tags).fingerprint == of_corpus.with_tags(of_run.tags).fingerprint
    has_grown = of_run.labels is None and all(of_corpus[side].grew_from(of_run[side]) for side in of_run.by_language)
    if not (is_same or has_grown):
        raise DataError(
            f"{path}: its tokenizer differs from that of {run.path}; nmt prepare --tokenizer-from {run.path} reuses it"
        )
    if warn and info.corpus not in (corpus.fingerprint, corpus.whole):
        # nmt prepare removes test pairs only from training text of the same directory
        say(f"{path} is not the data that {run.path} was trained on: its test sets may overlap with the training text")
    return corpus
