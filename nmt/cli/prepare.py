"""The commands for corpora: `nmt data`, `nmt align` and `nmt prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    AddressOption,
    ConfigOption,
    DataOption,
    SetOption,
    TasksOption,
    WorkersOption,
    option,
    runs,
)
from nmt.cli.refusals import refuse
from nmt.config.load import adopting, load_config
from nmt.console import show
from nmt.errors import ConfigError, DataError
from nmt.tables import Format, render


@app.command()
def prepare(
    context: typer.Context,
    config: ConfigOption = "base.yaml",
    data: DataOption = None,
    tokenizer_from: Annotated[
        Path | None,
        option("--tokenizer-from", "Use the tokenizer of this run instead of training one.", "RUN"),
    ] = None,
    append: Annotated[
        bool, option("--append", "Add new corpora, at the end of data.train, to a sharded data directory.")
    ] = False,
    force: Annotated[
        bool,
        option("--force", "Replace a data directory of other languages, or one that runs were trained on."),
    ] = False,
    engine: TasksOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    overrides: SetOption = [],
    dry_run: Annotated[bool, option("--dry-run", "Only clean the training text and report on it.")] = False,
    sample: Annotated[
        int | None,
        option("--sample", "Dry run on N pairs of each corpus, evenly spread.", "N", min=1),
    ] = None,
    report: Annotated[
        Path | None,
        option("--report", "Write the report of a dry run to a .html or .json file, or a directory.", "PATH"),
    ] = None,
) -> None:
    """Prepare parallel text for training as a data directory.

    Reads the corpora named in the config, drops unusable pairs and counts them by reason, removes training pairs that
    occur in a development or test set, holds out a development set if the config names none, trains a SentencePiece
    tokenizer on the training text, and writes text, token ids and a manifest. The data directory serves both
    directions. If it is up to date, nothing is done. If settings or source files have changed, it is prepared again;
    where it has other languages, or a run was trained on it, only with --force. Large corpora are prepared in parallel,
    with one process per core; if the preparation is interrupted, the same command continues it.

    A training text of more than 2^20 pairs is divided into shards. --append then adds corpora that are new at the end
    of data.train without preparing the others again; the vocabulary and the development and test sets do not change.

    report.html in the directory shows what was dropped and what was kept, with samples. --dry-run shows the same before
    anything is prepared. --sample 1000 takes only seconds and is useful for trying out cleaning settings.

    \b
    Examples:
      nmt prepare --config sample.yaml
      nmt prepare --config sample.yaml --sample 1000 --report build/report.html
      nmt prepare --config multi30k.yaml --set data.root=corpora/multi30k
      nmt prepare --config mine.yaml --data data/prepared/mine --tokenizer-from runs/base-de-en
    """
    is_dry = dry_run or sample is not None
    from nmt.prepare.prepare import append as run_append
    from nmt.prepare.prepare import dry_run as run_dry
    from nmt.prepare.prepare import prepare as run_stage
    from nmt.tasks.runners import open_runner

    settings = load_config(config, overrides)
    if tokenizer_from is not None:
        settings = adopting(settings, tokenizer_from, "--tokenizer-from")
    if len(settings.data.pairs) > 1:
        refuse(context, "several-pairs")
    with open_runner(engine, workers, address) as tasks:
        if is_dry:
            run_dry(settings, sample, report, engine=tasks, tokenizer_from=tokenizer_from)
            return
        if append:
            run_append(settings, data or settings.data.directory, engine=tasks)
            return
        run_stage(settings, data or settings.data.directory, tokenizer_from, engine=tasks, force=force)


@app.command()
def data(
    action: Annotated[Literal["list", "show", "get"], typer.Argument(metavar="ACTION", help="list, show or get.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] PAIR",
            help="Name of the corpus (not for list) and language pair, such as de-en.",
        ),
    ],
    version: Annotated[
        str | None, option("--version", "With get: version of the corpus.  [default: latest]", "V")
    ] = None,
    output: Annotated[Path | None, option("--output", "With get: directory to write.  [default: data]", "DIR")] = None,
    format_: Annotated[Format | None, option("--format", "With list: format of the table.  [default: text]")] = None,
) -> None:
    """List, describe and download public corpora of OPUS.

    Corpora are known by their names on https://opus.nlpl.eu.

    list PAIR prints the corpora for a language pair with name, latest version, number of pairs and download size.
    show NAME PAIR prints versions, licence and citation of a corpus, and how to use it in a config.
    get NAME PAIR downloads a corpus, writes it as plain text (one file per language, one sentence per line) with
    its licence, and prints the settings for a config.

    Interrupted downloads are resumed. Downloads are cached in ~/.cache/nmt, or in the directory NMT_CACHE.
    NMT_OPUS_URL sets the address of a mirror of the OPUS API.

    \b
    Examples:
      nmt data list de-en
      nmt data show Europarl de-en
      nmt data get Europarl de-en --version v8 --output corpora
    """
    from nmt.prepare.opus import describe, get, language_pair, list_corpora

    match action, words:
        case "list", [pair]:
            table = list_corpora(language_pair(pair))
            print(render(format_ or "text", [table], table.records))
        case "show", [name, pair]:
            show(*describe(name, language_pair(pair)))
        case "get", [name, pair]:
            show(*get(name, language_pair(pair), version, output or Path("data")))
        case _:
            operands = "a language pair, as in nmt data list de-en"
            if action != "list":
                operands = f"a name and a language pair, as in nmt data {action} Europarl de-en"
            raise ConfigError(f"data {action} takes {operands}, found {' '.join(words)}")


@app.command()
def align(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Document, or file with lines of text.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Its translation.")],
    output: Annotated[str, option("--output", "File to write, .tsv or .tmx, or - for standard output (TSV).", "F|-")],
    direction: Annotated[
        str | None,
        option("--direction", "Languages, such as de-en.  [default: the names of the files]", "PAIR"),
    ] = None,
    run: Annotated[
        Path | None, option("--run", "Run whose translations of the source are compared.", "RUN", autocompletion=runs)
    ] = None,
) -> None:
    """Make parallel text of a document and its translation.

    Both are split into sentences, which are aligned in their order: one or two sentences with one or two, or with none.
    Sentences match if their lengths and words do (Gale and Church, 1993; Moore, 2002); which words translate each
    other is learned from the two documents. With --run, the source is also translated by greedy search, and
    source and translation are compared with the target, which helps with short documents if the run is good.

    Each pair has a score between 0 and 1 in the column (or TMX property) score. With --run it is the chrF of the
    translation, divided by 100. Otherwise it rises with the probability that the words translate each other. In a
    config, set score: score and clean.min_score to use only the better pairs. Sentences without a counterpart are
    counted.

    SOURCE and TARGET are documents that nmt can translate (docs/documents.md), or files with lines of
    text, such as A.de and A.en.

    \b
    Examples:
      nmt align letters.de letters.en --output letters.tsv
      nmt align manual.de.docx manual.en.docx --run runs/general-de-en --output manual.tmx
      nmt align handbuch.odt handbook.odt --direction de-en --output - > handbook.tsv
    """
    from nmt.console import say
    from nmt.documents.parallel import (
        OUTPUTS,
        check_direction,
        direction_of,
        parallel_text,
        read_sentences,
        write_parallel,
    )
    from nmt.files.write import open_output, refuse_overwriting

    suffix = Path(output).suffix.lower()
    if output != "-" and suffix not in OUTPUTS:
        raise ConfigError(f"--output {output}: must end in {' or '.join(OUTPUTS)}")
    refuse_overwriting([output], [source, target])
    texts = read_sentences(source), read_sentences(target)
    chosen = check_direction(direction) if direction is not None else direction_of(source, target, texts)
    translator = None
    if run is not None:
        from nmt.translate.loading import Translator

        translator = Translator.load(run)
        data = translator.config.data
        chosen = chosen or data.direction
        src, tgt = chosen.split("-")
        if not data.has_language_tags and src != data.src:
            raise ConfigError(f"--run {run}: translates from {data.src}, but SOURCE is {src}")
        if not data.has_language_tags and not translator.tokenizers[data.src].target_languages and tgt != data.tgt:
            raise ConfigError(f"--run {run}: translates into {data.tgt}, but TARGET is {tgt}")
        translator = translator.towards(tgt, src)
    if chosen is None:
        raise ConfigError(
            f"--direction: needed, such as de-en: {source.name} and {target.name} do not end in the codes of two "
            "different languages that nmt knows"
        )
    with open_output(output) as out:
        translations = None if translator is None else translator.translate(texts[0], beam=1)
        aligned = parallel_text(*texts, translations)
        if not aligned.pairs:
            raise DataError(f"{source} and {target}: no sentences match; is one a translation of the other?")
        write_parallel(out, suffix, aligned.pairs, chosen)
    say(aligned.summary())
    if 2 * (aligned.shapes[1, 0] + aligned.shapes[0, 1]) > sum(map(len, texts)):
        say("warning: most sentences have no counterpart; is one document a translation of the other?")
