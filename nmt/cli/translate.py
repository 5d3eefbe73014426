"""`nmt translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    AddressOption,
    BeamOption,
    CheckpointOption,
    LmOption,
    LmWeightOption,
    ModelOption,
    PenaltyOption,
    PrecisionOption,
    RunsOption,
    SearchOption,
    WeightsOption,
)
from nmt.console import say
from nmt.errors import ConfigError


@app.command()
def translate(
    run: RunsOption = None,
    model: ModelOption = None,
    source: Annotated[
        str, typer.Option("--input", metavar="F|-", help="Text to translate, - for standard input.")
    ] = "-",
    target: Annotated[str, typer.Option("--output", metavar="F|-", help="File to write, - for standard output.")] = "-",
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best",
            metavar="N",
            min=1,
            help="Translations per line; at most the beam size, or the number of samples.",
        ),
    ] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write line number, score and log-probability before each translation.")
    ] = False,
    overrides: SearchOption = None,
    prefix: Annotated[
        Path | None, typer.Option("--prefix", metavar="F", help="File whose line n is the start of translation n.")
    ] = None,
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints", metavar="F", help="File whose line n lists terms for translation n, separated by tabs."
        ),
    ] = None,
    glossary: Annotated[
        Path | None,
        typer.Option("--glossary", metavar="F", help="Terms with their translations, as .tsv or .csv."),
    ] = None,
    alignments: Annotated[
        Path | None, typer.Option("--alignments", metavar="F", help="Write word alignments, such as 0-0 1-2.")
    ] = None,
    attention: Annotated[
        Path | None, typer.Option("--attention", metavar="F.png", help="Plot the attention of the first line.")
    ] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    engine: Annotated[
        Literal["native", "ctranslate2", "ray"],
        typer.Option("--engine", help="PyTorch, CTranslate2 (an extra), or PyTorch on a Ray cluster (an extra)."),
    ] = "native",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Translate a file in parts with N processes.  [default with ray: one per GPU, or per CPU]",
        ),
    ] = None,
    address: AddressOption = None,
    int8: Annotated[bool, typer.Option("--int8", help="With ctranslate2: 8-bit weights.")] = False,
    as_text: Annotated[
        bool, typer.Option("--as-text", help="Translate a document as plain lines, including its markup.")
    ] = False,
) -> None:
    """Translate text line by line.

    Input and output are plain UTF-8 text; blank lines stay blank. Lines are read 4,096 at a time and sorted by length;
    if input arrives slowly, lines are translated as they come. Each line is written to standard output as soon as its
    batch is done. A file is written as F.part and renamed when it is complete. Lines longer than data.max_pieces are
    translated in parts.

    Documents such as .srt, .html, .po, .xlf, .docx and .pdf are rejected, by their name or content. `nmt serve` and
    nmt.documents in Python translate the formats listed in docs/documents.md; --as-text translates any document as
    plain lines.

    --scores writes four tab-separated columns: line number, score, log-probability (a sum, in nats) and translation.
    `sort -g -k2,2` then puts the least probable lines first. With --n-best N, each line has up to N translations, best
    first, in the same columns.

    --set search.KEY=VALUE changes a search setting, such as patience, sample, temperature, mbr, no_repeat_ngram, split
    or protect. `nmt config` describes all of them.

    --lm DIR adds the log-probabilities of a language model of the target language, multiplied by --lm-weight, at every
    step (shallow fusion). Its run must have the same tokenizer.

    --glossary F applies to all lines. For each occurrence of a term in the source, matched as whole words with the same
    case, the translation contains the term's translation. The longest of overlapping terms is used. Blank lines of F
    and lines that start with "# " are skipped. With search.inline_terms, for models trained with
    training.modifiers.terms, terms are inserted into the source instead.

    --workers N and --engine ray are for large files. They translate 4,096 lines at a time, on one GPU per process if
    available, to the same translations as one process. If interrupted, the same command continues; finished parts are
    kept in OUTPUT.work until the output is complete. They need --input and --output, and are not available with
    --prefix, --constraints, --glossary, --alignments and --attention. On a Ray cluster, the files, the runs and the
    working directory must have the same paths on all machines.

    \b
    Examples:
      echo "Gestern hat Maria den Hund gefüttert." | nmt translate
      nmt translate --run runs/multi30k-de-en --input news.de --output news.en
      nmt translate --scores --input news.de | sort -g -k2,2 | head
      nmt translate --beam 10 --n-best 10 --input news.de
      nmt translate --n-best 5 --set search.sample=true --set search.top_p=0.9 --input news.de
      nmt translate --set search.sample=true --set search.mbr=chrf --input news.de
      nmt translate --glossary glossary.tsv --input news.de
      nmt translate --set search.protect=true --constraints terms.txt --alignments words.txt --input news.de
      nmt translate --workers 8 --input crawl.de --output crawl.en
      nmt translate --engine ray --address 10.0.0.1:6379 --input crawl.de --output crawl.en
    """
    from nmt.documents import refuse_document

    if not as_text:
        refuse_document(source)
    from nmt.cli.defaults import resolve_models, search_settings, with_language_model
    from nmt.model.device import visible_gpus
    from nmt.share.export import engine_for
    from nmt.tasks.engines import open_engine
    from nmt.translate.files import Files, translate_file
    from nmt.translate.parts import Models, translate_in_parts
    from nmt.translate.translator import Translator, open_ensemble

    if engine == "ctranslate2" and precision != "auto":
        raise ConfigError(["--precision needs --engine native; with ctranslate2, use --int8"])
    if engine != "ctranslate2" and int8:
        raise ConfigError(["--int8 needs --engine ctranslate2"])
    if address is not None and engine != "ray":
        raise ConfigError([f"--address {address} needs --engine ray"])
    overrides = with_language_model(overrides or (), lm, lm_weight)
    files = Files(prefix, constraints, glossary, alignments, attention)
    paths = resolve_models(run, model)
    if workers is not None or engine == "ray":
        if engine == "ctranslate2":
            raise ConfigError(["--workers needs --engine native or ray; CTranslate2 uses all cores in one process"])
        if "-" in (source, target):
            raise ConfigError(["--workers and --engine ray need files: name --input and --output"])
        if files != Files():
            others = "--prefix, --constraints, --glossary, --alignments and --attention"
            raise ConfigError([f"{others}: not available with --workers and --engine ray"])
        saved = open_ensemble(paths, checkpoint, weights)
        search = search_settings(saved[0].config, beam, length_penalty, overrides)
        for note in filter(None, (each.note for each in saved)):
            say(note)
        models = Models.of(saved, checkpoint, weights, precision)
        del saved  # to free memory; workers load the models again
        with open_engine("ray" if engine == "ray" else "local", workers, address, visible_gpus()) as processes:
            translate_in_parts(processes, models, Path(source), Path(target), search, n_best, scores)
        return
    if engine == "ctranslate2":
        translator: Translator = engine_for(paths, checkpoint, weights, int8)
    else:
        translator = Translator.load(paths, checkpoint, weights, precision=precision)
    search = search_settings(translator.config, beam, length_penalty, overrides)
    translate_file(translator, source, target, search, n_best, files, scores, as_text)
