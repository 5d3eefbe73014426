"""The commands that run a model over text: `nmt translate`, `classify`, `score`, `generate` and `filter`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    AddressOption,
    BeamOption,
    CheckpointOption,
    FromOption,
    LmOption,
    LmWeightOption,
    ModelOption,
    PenaltyOption,
    PrecisionOption,
    RunOption,
    RunsOption,
    SearchOption,
    TagOption,
    ToOption,
    ViaOption,
    WeightsOption,
    option,
    runs,
)
from nmt.cli.refusals import refuse
from nmt.cli.teacher import chat_options, with_teacher
from nmt.config import Config
from nmt.config.load import Override
from nmt.console import say
from nmt.errors import ConfigError, DataError
from nmt.search.settings import SearchConfig
from nmt.share import EngineName

if TYPE_CHECKING:
    from nmt.translate.loading import Translator

_FILE_NAME = re.compile(r"\S+\.[A-Za-z]\w{0,4}", re.ASCII)
"""A word that is meant as the name of a file rather than as a sentence."""

OutputOption = Annotated[str, option("--output", "File to write, - for standard output.", "F|-")]


@app.command()
@with_teacher("glossary", "tm", "terms")
def translate(
    context: typer.Context,
    chat: dict[str, Any],
    words: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="A sentence; or a file, whose translation is written beside it."),
    ] = [],
    run: RunsOption = [],
    model: ModelOption = None,
    inputs: Annotated[
        list[str],
        option("--input", "Text or document to translate.  [default: standard input, -]", "F|-"),
    ] = [],
    output: Annotated[
        str | None, option("--output", "File to write.  [default: standard output, -; none with --bilingual]", "F|-")
    ] = None,
    output_dir: Annotated[
        Path | None,
        option("--output-dir", "Translate documents into this directory; --input: files or folders.", "DIR"),
    ] = None,
    bilingual: Annotated[
        Path | None,
        option("--bilingual", "Write texts with their translations, as .xlf or .tmx; with --output-dir: DIR.", "F"),
    ] = None,
    reviewed: Annotated[
        Path | None,
        option("--reviewed", "Build documents from such a file or DIR, corrected; nothing is translated.", "F"),
    ] = None,
    columns: Annotated[
        str | None,
        option("--columns", "Columns of a table, by name, number or letter.", "source=A[,target=B][,key=C]"),
    ] = None,
    overwrite: Annotated[
        bool,
        option("--overwrite", "Translate again what an existing output has, and replace outputs that were edited."),
    ] = False,
    report: Annotated[
        Path | None, option("--report", "Write what was translated, kept and left out of each document.", "F.json")
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    via: ViaOption = None,
    tags: TagOption = [],
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    n_best: Annotated[
        int,
        option(
            "--n-best", "Different translations per line; at most the beam size, or the number of samples.", "N", min=1
        ),
    ] = 1,
    scores: Annotated[
        bool, option("--scores", "Write line number, score and log-probability before each translation.")
    ] = False,
    confidence: Annotated[
        bool, option("--confidence", "Also write the expected chrF of each translation (nmt calibrate).")
    ] = False,
    overrides: SearchOption = [],
    prefix: Annotated[Path | None, option("--prefix", "File whose line n is the start of translation n.", "F")] = None,
    constraints: Annotated[
        Path | None,
        option("--constraints", "File whose line n lists terms for translation n, separated by tabs.", "F"),
    ] = None,
    glossary: Annotated[
        Path | None,
        option("--glossary", "Terms with their translations, as .tsv or .csv.", "F"),
    ] = None,
    tm: Annotated[
        list[str],
        option("--tm", "Translation memory, such as .tmx, .xlf or .tsv; may be repeated.", "F"),
    ] = [],
    alignments: Annotated[Path | None, option("--alignments", "Write word alignments, such as 0-0 1-2.", "F")] = None,
    attention: Annotated[Path | None, option("--attention", "Plot the attention of the first line.", "F.png")] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    engine: Annotated[
        Literal["auto", "native", "ctranslate2", "ray"],
        option(
            "--engine",
            "PyTorch (native), CTranslate2 (an extra), or PyTorch on a Ray cluster (an extra); auto: CTranslate2 where "
            "a model was made for it, else PyTorch.",
        ),
    ] = "auto",
    workers: Annotated[
        int | None,
        option(
            "--workers",
            "Translate a file in parts with N processes.  [default with ray: one per GPU, or per CPU]",
            "N",
            min=1,
        ),
    ] = None,
    address: AddressOption = None,
    int8: Annotated[bool, option("--int8", "With ctranslate2: 8-bit weights.")] = False,
    as_text: Annotated[bool, option("--as-text", "Translate a document as plain lines, including its markup.")] = False,
    interactive: Annotated[
        bool, option("--interactive", "Translate lines as they are typed, and show the next best translations.")
    ] = False,
) -> None:
    """Translate text line by line, or documents.

    Input and output are plain UTF-8 text; blank lines stay blank. Lines are read 4,096 at a time and sorted by length;
    if input arrives slowly, lines are translated as they come. Each line is written to standard output as soon as its
    batch is done. A file is written as F.part and renamed when it is complete. Lines longer than data.max_pieces are
    translated in parts.

    A sentence can also be an argument. A file as an argument is read as with --input; without an option for the output,
    its translation is written beside it, with the code of the target language in its name: letter.docx to
    letter.en.docx, news.de to news.en; or where the code of the source is in its path, in its place: de/a.html to
    en/a.html, app_de.po to app_en.po. A document that exists is overwritten only with --overwrite.

    Documents keep their format: office documents, HTML, Markdown, subtitles, XLIFF, PO and other files of software
    strings, and tables are translated as documents, sentence by sentence, as `nmt serve` does; docs/documents.md lists
    all formats. With --output-dir, --input may be repeated, and may be a folder, all of whose documents are translated,
    including .txt. Files in formats that lines of text would damage, such as PDF and .rst, are rejected; --as-text
    translates any file as plain lines. If the translation of documents is interrupted after a minute or later, the same
    command continues; finished texts are kept in OUTPUT.work, or in .work in the output directory, until it is
    complete.

    --columns chooses the columns of a .csv, .tsv or .xlsx file: source is translated; the translations go to the empty
    cells of target, or to a new column of that name, or replace the texts of source without one; key names the column
    with keys of texts. A column is a name in the first row; otherwise its number from 1 or its letter, and the first
    row is translated, too. Without --columns, the first row must name both languages, or `source` and `target`; of an
    .xlsx file, all texts are translated.

    If the output exists, and its format has keys, such as .po and .json, only texts that are missing in it, or
    whose source has changed since, are translated; all others stay as they are, and edited translations always.
    With --output-dir, other documents are translated again only if their source, the models or the options have
    changed, and not if they were edited. What was written is remembered in .nmt beside each output. --overwrite
    translates all again. --report F.json writes for each document how many texts were translated, kept, exact
    matches and so on (docs/documents.md).

    --bilingual F writes the texts of one document with their translations as XLIFF 1.2 (.xlf, .xliff) or TMX, for
    review in a CAT tool; the document is written only with --output. --reviewed F builds the document from such a file.
    With --output-dir, F is a directory with an XLIFF file for each document: letter.docx.xlf for letter.docx. With
    --reviewed, nothing is translated, and no model is loaded unless --run or --model is given, which then aligns words
    to place markup.

    --scores writes four tab-separated columns: line number, score, log-probability (a sum, in nats) and translation.
    `sort -g -k2,2` then puts the least probable lines first. With --n-best N, each line has up to N translations, best
    first, in the same columns: fewer if the beam contains fewer different texts. Samples may be equal. --confidence
    adds a column before the translation: its expected chrF, from 0 to 100, which is not a probability, or nothing if
    the model has translated nothing. In a bilingual file, it is in notes and states (.xlf) or properties (.tmx). The
    run must have been calibrated (`nmt calibrate`).

    --set search.KEY=VALUE changes a search setting, such as patience, sample, temperature, mbr, no_repeat_ngram, split
    or protect. `nmt config` describes all of them.

    --lm DIR adds the log-probabilities of a language model of the target language, multiplied by --lm-weight, at every
    step (shallow fusion). Its run must have the same tokenizer.

    --glossary F applies to all lines. For each occurrence of a term in the source, matched as whole words with the same
    case, the translation contains the term's translation. The longest of overlapping terms is used. Blank lines of F,
    lines that start with "# ", and rows without a term or its translation are skipped. With search.inline_terms, for
    models trained with training.modifiers.terms, terms are inserted into the source instead.

    --tm F is a translation memory in a format that `nmt prepare` reads, or a folder of such files. A line or sentence
    that occurs in it gets the translation from the memory, with score 0 (docs/translating.md). A model trained with
    training.modifiers.fuzzy translates other lines with the translation of the most similar segment beside them.

    --interactive shows a prompt. Below the translation of each line, it shows the mean probability of its pieces, its
    expected chrF if the run has been calibrated, and the next best translation. `:help` lists commands, which open
    another run, or change the beam size or the glossary; Ctrl-C clears the line, and Ctrl-D ends.

    --engine ctranslate2 converts a run once, and compares up to 500 lines. From then on, the default, auto, translates
    with it on a CPU, if at least 99.5 % of these lines were translated identically and it supports the options. It
    answers single lines several times as fast.

    --workers N and --engine ray are for large files. They translate 4,096 lines at a time, on one GPU per process if
    available, to the same translations as one process. If interrupted after a minute or later, the same command
    continues; finished parts are kept in OUTPUT.work until the output is complete. They need --input and --output, and
    are not available with --prefix, --constraints, --glossary, --tm, --alignments, --attention, --confidence and --via.
    On a Ray cluster, the files, the runs and the working directory must have the same paths on all machines.

    With --teacher-url, a language model on any server with an API for chat completions translates the lines, from the
    language of --from into that of --to (docs/recipes.md#which-teacher). The key is read from the environment variable
    OPENAI_API_KEY. Answers are checked; a line without a good one is blank, counted, and listed in OUTPUT.rejected.tsv.
    If interrupted, the exit status is 75, and the same command continues: answers are kept in OUTPUT.work until the
    output is complete. Without --output, they are not kept.

    \b
    Examples:
      nmt translate "Gestern hat Maria den Hund gefüttert."
      nmt translate letter.docx
      nmt translate --interactive
      nmt translate --run runs/multi30k-de-en --input news.de --output news.en
      nmt translate --input letter.docx --output letter.en.docx
      nmt translate --input letters --input manual.odt --output-dir translated
      nmt translate --input letter.docx --bilingual letter.xlf
      nmt translate --input letters --output-dir drafts --bilingual reviews
      nmt translate --input letters --output-dir translated --reviewed corrected
      nmt translate --input de.json --output en.json
      nmt translate --input texts.csv --columns source=Deutsch,target=English --output texts.en.csv
      nmt translate --input website --output-dir website.en --tm memory.tmx --bilingual review --report report.json
      nmt translate --run runs/multi30k-de-en --input letter.docx --reviewed letter.xlf --output letter.en.docx
      nmt translate --scores --input news.de | sort -g -k2,2 | head
      nmt translate --confidence --input news.de --output news.tsv
      nmt translate --beam 10 --n-best 10 --input news.de
      nmt translate --n-best 5 --set search.sample=true --set search.top_p=0.9 --input news.de
      nmt translate --set search.sample=true --set search.mbr=chrf --input news.de
      nmt translate --glossary glossary.tsv --input news.de
      nmt translate --tm memory.tmx --input news.de
      nmt translate --set search.protect=true --constraints terms.txt --alignments words.txt --input news.de
      nmt translate --workers 8 --input crawl.de --output crawl.en
      nmt translate --engine ray --address 10.0.0.1:6379 --input crawl.de --output crawl.en
      nmt translate --teacher-url http://localhost:8000/v1 --teacher-model NAME --from de --to en --input a.de
    """
    from nmt.documents import Columns, is_document, refuse_document

    text, files_named = _meant(words, [str(path) for path in (glossary, *tm) if path is not None])
    if text is not None:
        refuse(context, "sentence")
    sources = inputs or files_named or ["-"]
    source = sources[0]
    has_output = (output_dir, bilingual, reviewed) != (None, None, None)
    for_documents = has_output or columns is not None
    is_alone = as_text or not (is_document(source) or Path(source).is_dir())
    has_documents = for_documents or len(sources) > 1 or not is_alone
    refuse(context, "documents" if has_documents else "lines")
    if not (has_documents or as_text):
        refuse_document(source)
    if (model_asked := chat_options(chat)) is not None:
        from nmt.recipes.ask import translate_by_chat

        languages = str(from_), str(to)
        if files_named and output is None:
            output = _beside(Path(source), *languages)
        translate_by_chat(model_asked, languages, source, output or "-", text)
        return
    from nmt.cli.defaults import resolve_models, search_settings, searching
    from nmt.languages.directions import ANY
    from nmt.model.device import visible_gpus
    from nmt.runs.model import ModelRef
    from nmt.share.export import load_translator
    from nmt.tasks.runners import open_runner
    from nmt.text.glossaries import read_glossary
    from nmt.translate.documents import Documents, DocumentTranslator
    from nmt.translate.files import TranslationFiles, TranslationModels, translate_file, translate_in_parts
    from nmt.translate.interactive import interact
    from nmt.translate.loading import for_texts
    from nmt.translate.types import WINDOW, Options

    places = Columns.parse(columns) if columns is not None else None
    is_beside = len(files_named) == 1 and Path(source).is_file() and not (output or has_output)
    documents = None
    if has_documents and not is_beside:
        documents = Documents(sources, output, output_dir, bilingual, reviewed, places, overwrite, report)
    if documents is not None and reviewed is not None and not (run or model):
        documents.write(None)
        return
    changes = [*overrides, *searching(lm=lm and str(lm), lm_weight=lm_weight, tags=tags or None)]

    def settings(config: Config, *defaults: Override) -> SearchConfig:
        return search_settings(config, beam, length_penalty, [*defaults, *changes])

    ref = ModelRef(resolve_models(run, model), checkpoint, weights)
    if workers is not None or engine == "ray":
        models, config = TranslationModels.read(replace(ref, to=to, source=from_ or ANY), precision)
        options = Options(settings(config), n_best)
        with open_runner("ray" if engine == "ray" else "local", workers, address, visible_gpus()) as processes:
            translate_in_parts(processes, models, Path(source), Path(output or "-"), options, scores)
        return
    native_only = (prefix, constraints, glossary, alignments, attention)
    needs_native = precision != "auto" or confidence or any(path is not None for path in native_only)
    loaded_engine: EngineName = "native" if engine == "auto" and needs_native else engine

    def opened(ref: ModelRef) -> Translator:
        falls_back = has_documents or interactive  # markup and glossaries need PyTorch
        loaded = load_translator(ref, loaded_engine, settings, int8=int8, precision=precision, falls_back=falls_back)
        translator = loaded.towards(to, from_ or ANY, via)
        return translator.searching(settings(translator.config))

    translator = opened(ref)
    if interactive:
        interact(translator, lambda path: opened(ref.at(path)))
        return
    if is_beside:
        output = _beside(Path(source), translator.source, translator.target, overwrite)
        documents = (
            Documents(sources, output, columns=places, overwrite=overwrite, report=report) if has_documents else None
        )
    if documents is not None:
        search = settings(translator.config, *for_texts(translator.search))
        memory = translator.memory(tm, search) if tm else None
        terms = None if glossary is None else read_glossary(glossary, translator.target)
        options = Options(search, align=translator.aligns, confidence=confidence)
        documents.write(DocumentTranslator(translator, options, terms, memory))
    else:
        files = TranslationFiles(prefix, constraints, glossary, tuple(tm), alignments, attention, scores, as_text, text)
        options = Options(translator.search, n_best, confidence=confidence, n_estimated=WINDOW)
        translate_file(translator, source, output or "-", options, files)
    if is_beside:
        say(f"wrote {output}")


def _meant(words: Sequence[str], tables: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the sentence, or else the files, that are the arguments of `nmt translate`; a dash is standard input.

    tables: the glossary and memories. Raises ConfigError for a file that seems to be one more of them, DataError for a
    file that does not exist, and for text that is not UTF-8.
    """
    from nmt.documents import is_document

    if not words or words == ["-"]:
        return None, []
    missing = [word for word in words if not os.path.exists(word)]  # noqa: PTH110 (Path.exists raises for long names)
    if not missing:
        suffixes = {Path(table).suffix for table in tables}
        for word in words:
            if Path(word).suffix in suffixes:
                raise ConfigError(f"{word}: if it is one more memory, repeat --tm; to translate it, give it to --input")
        return None, [*words]
    for word in missing:
        if is_document(word) or _FILE_NAME.fullmatch(word):
            raise DataError(f"{word}: no such file; for a sentence, echo {shlex.quote(word)} | nmt translate")
    try:
        return os.fsencode(" ".join(words)).decode(), []
    except UnicodeDecodeError:
        raise DataError("the sentence is not UTF-8; use a terminal with UTF-8, or give a file") from None


def _beside(path: Path, source: str, target: str, overwrite: bool = False) -> str:
    """Return the file for the translation of a file: with the target language in place of the source in its name or in
    one of two folders above it, or else beside it, with the code of the target language in its name.

    Raises DataError if it exists and must not be overwritten.
    """
    from nmt.documents.names import target_names
    from nmt.files.compressed import compression_of

    if compression_of(path):
        path = path.with_suffix("")
    suffix = "" if path.suffix == f".{source}" else path.suffix
    written = path.with_name(f"{path.stem}.{target}{suffix}")
    inner = Path(*path.parts[-3:]).as_posix()
    (named,) = target_names([inner], source, target)
    if suffix and named not in ("", inner):
        written = Path(*path.parts[:-3], named)
        written.parent.mkdir(parents=True, exist_ok=True)
    if written.exists() and not overwrite:
        advice = "choose another file with --output, or give --overwrite"
        raise DataError(f"{written}: exists, and is not overwritten; {advice}")
    return str(written)


@app.command()
def classify(
    run: RunOption = None,
    source: Annotated[str, option("--input", "Texts to classify, - for standard input.", "F|-")] = "-",
    target: OutputOption = "-",
    probabilities: Annotated[bool, option("--probabilities", "Print all labels, the most probable first.")] = False,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Predict the label of each line with a classifier.

    The run must have been trained with training.objective: classification. Reads plain UTF-8 text and writes a label, a
    tab and its probability for each line; blank lines stay blank. With --probabilities, all labels are written with
    their probabilities, separated by tabs, the most probable first. Only the start of a text is used if it is longer
    than four times data.max_pieces.

    \b
    Examples:
      echo "A bright and moving film." | nmt classify
      nmt classify --run runs/imdb --input reviews.txt --output labels.tsv
      nmt classify --run runs/imdb --input reviews.txt --probabilities
    """
    from nmt.cli.defaults import run_or_newest
    from nmt.evaluate.classification import Classifier, classify_file
    from nmt.runs.model import ModelRef

    classifier = Classifier.load(
        ModelRef((run_or_newest(run, ["classification"]),), checkpoint, weights), precision=precision
    )
    classify_file(classifier, source, target, probabilities)


@app.command()
def score(
    reference: Annotated[Path, option("--ref", "Translations to score, one per line …", "F")],
    source: Annotated[Path | None, option("--src", "… and their source text; not for language models.", "F")] = None,
    run: RunsOption = [],
    model: ModelOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    output: OutputOption = "-",
    tokens: Annotated[
        bool, option("--tokens", "Print a JSON object per pair, with the log-probability of each piece.")
    ] = False,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Compute log-probabilities of given translations.

    Forced decoding: reads two files of plain UTF-8 text and prints four tab-separated columns: line number, score,
    log-probability and translation, as `nmt translate --scores` does. The score is the one that the search maximizes:
    the log-probability divided by the length penalty, which by default is the mean per piece. Logarithms are natural.

    --tokens prints a JSON object per pair instead, with score, log_prob, pieces, log_probs (of each piece given the
    source and the previous pieces) and cut.

    The score of a pair with a blank side is nan (null with --tokens). If a line is too long for the model, only its
    start is scored, and cut is true. Both cases are counted on standard error, followed by the total log-probability
    and the perplexity per piece and per word.

    A language model (training.objective: causal) scores the lines of --ref without --src.

    \b
    Examples:
      nmt score --src test.de --ref test.en
      nmt score --run runs/multi30k-de-en --src test.de --ref test.en --tokens --output scores.jsonl
      nmt score --src test.de --ref test.en | sort -g -k2,2 | head
      nmt score --run runs/lm-en --ref test.en
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.console import Progress, n_lines
    from nmt.runs.model import ModelRef
    from nmt.text.lines import read_aligned, read_lines
    from nmt.translate.language_model import LanguageModel
    from nmt.translate.loading import Translator
    from nmt.translate.score import write_scores

    paths = resolve_models(run, model, ["translation" if source else "causal"])
    if source is None:
        text = read_lines(reference)
        if len(paths) > 1:
            raise ConfigError("--src F must be given to score translations with several runs")
        try:
            language_model = LanguageModel.load(ModelRef(paths, checkpoint, weights), precision=precision)
        except ConfigError as error:
            raise ConfigError(
                *[f"{problem}; to score translations, add --src F" for problem in error.problems]
            ) from None
        config = language_model.config
        score_all = partial(language_model.score, text)
        noun = "line"
    else:
        pairs = read_aligned(source, reference)
        translator = Translator.load(ModelRef(paths, checkpoint, weights, to, from_), precision=precision)
        config = translator.config
        score_all = partial(translator.score, pairs)
        noun = "pair"
    search = search_settings(config, None, length_penalty, overrides)
    with Progress("scoring", n_lines(reference), f"{noun}s", shown=output != "-") as progress:
        totals = write_scores(score_all(search, progress), output, tokens, noun)
    for line in totals.lines():
        say(line)


@app.command()
def generate(
    run: RunOption = None,
    prefix: Annotated[str | None, option("--prefix", "Start of the lines.  [default: none]", "TEXT")] = None,
    source: Annotated[
        str | None,
        option("--input", "File with starts of lines, - for standard input.", "F|-"),
    ] = None,
    target: OutputOption = "-",
    samples: Annotated[int, option("--samples", "Number of lines to write per start.", "N", min=1)] = 1,
    beam: Annotated[
        int | None,
        option("--beam", "Search for the most probable lines instead of sampling.", "K", min=1),
    ] = None,
    temperature: Annotated[float | None, option("--temperature", "Values below 1 favour likely pieces.", "T")] = None,
    top_k: Annotated[
        int | None, option("--top-k", "Sample from the K most probable pieces; 0: all.", "K", min=0)
    ] = None,
    top_p: Annotated[
        float | None,
        option("--top-p", "Sample from the smallest set of pieces of probability P.", "P"),
    ] = None,
    seed: Annotated[int | None, option("--seed", "Random seed.", "N", min=0)] = None,
    overrides: SearchOption = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Generate text with a language model.

    Samples lines from a run of training.objective: causal. Each line can continue a given start: --prefix TEXT, or the
    lines of --input. --samples N writes N lines per start, one after the other. The same seed produces the same lines.

    --beam K searches for the N most probable lines instead, where K must be at least N. A line has at most
    data.max_pieces pieces; with search.max_length_ratio=0, at most search.max_length_offset.

    \b
    Examples:
      nmt generate --run runs/lm-en --samples 5
      nmt generate --run runs/lm-en --prefix "A man in a" --samples 5 --top-p 0.9
      nmt generate --run runs/lm-en --input beginnings.en --output lines.en --temperature 0.7 --seed 2
      nmt generate --run runs/lm-en --prefix "A man in a" --beam 5
    """
    from nmt.cli.defaults import run_or_newest, search_settings, searching
    from nmt.runs.model import ModelRef
    from nmt.translate.language_model import Generator, LanguageModel, generate_file

    model = ModelRef((run_or_newest(run, ["causal"]),), checkpoint, weights)
    language_model = LanguageModel.load(model, precision=precision)
    config = language_model.config
    sampling = searching(sample=beam is None, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    search = search_settings(config, beam, None, [*sampling, *overrides])
    generator = Generator(language_model, search, samples)
    generate_file(generator, source, target, prefix or "")


@app.command("filter")
def filter_pairs(
    source: Annotated[Path, option("--src", "Source side of the pairs …", "F")],
    target: Annotated[Path, option("--tgt", "… and target side, line by line.", "F")],
    run: RunOption = None,
    reverse: Annotated[
        Path | None,
        option("--reverse", "Run from target to source.", "RUN", autocompletion=runs),
    ] = None,
    classifier: Annotated[
        Path | None,
        option("--classifier", "Run trained with masked.pair_task.", "RUN", autocompletion=runs),
    ] = None,
    to: ToOption = None,
    from_: FromOption = None,
    output: Annotated[str | None, option("--output", "Write the scores to F, - for standard output.", "F|-")] = None,
    keep: Annotated[float | None, option("--keep", "Keep this share of the pairs, such as 0.75 …", "SHARE")] = None,
    min_score: Annotated[float | None, option("--min-score", "… or all pairs with at least this score.", "X")] = None,
    kept: Annotated[
        list[Path],
        option("--kept", "Write source and target of the kept pairs to these files.", "F F"),
    ] = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score noisy parallel text and keep the best pairs.

    --run and --reverse compute dual conditional cross-entropy (Junczys-Dowmunt, 2018). With A the cross-entropy per
    piece of the target given the source, and B that of the source given the target, the score is
    exp(-(|A - B| + (A + B) / 2)), between 0 and 1. It is high if both runs find the pair about equally probable. Train
    the runs on clean text that resembles the noisy text.

    --classifier takes a run trained with training.masked.pair_task to recognise translations. With x the log-odds that
    a pair is a translation, the score is (1 + x / (1 + |x|)) / 2, which is above 0.5 if that is more likely than not.
    If both methods are given, the score is the mean of the pair's two percentile ranks.

    --output writes one score per line. To use it in nmt prepare, name the file in score of a training corpus and set a
    threshold with clean.min_score. --kept writes the pairs that are kept, in their original order; without it, only
    their number and the threshold are reported. Among pairs with equal scores, --keep prefers the first.

    A pair with a blank side has score 0 and is never kept. If a line is too long for a model, only its start is scored.
    Both cases are counted on standard error, together with quantiles of the scores. The input is read more than once,
    so it cannot be a pipe.

    \b
    Examples:
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores --keep 0.75
      nmt filter --reverse runs/en-de --src web.de --tgt web.en --min-score 0.05 --kept kept.de kept.en
      nmt filter --classifier runs/pairs --src web.de --tgt web.en --keep 0.75 --kept kept.de kept.en
    """
    if problem := _problem(keep, min_score, kept):
        raise ConfigError(problem)

    import numpy as np

    from nmt.cli.defaults import run_or_newest
    from nmt.console import Progress
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.runs.model import ModelRef
    from nmt.text.lines import read_aligned
    from nmt.translate.filter import (
        agreed,
        at_least,
        best,
        collect_scores,
        count_pairs,
        kept_message,
        load_scorers,
        write_kept,
    )

    refuse_overwriting([output, *kept], [source, target])
    n_pairs = count_pairs(source, target)
    if reverse is not None:
        run = run_or_newest(run)
    with ExitStack() as opened:
        scores_file = None
        if output is not None:
            scores_file = opened.enter_context(open_output(output))
        kept_files = [opened.enter_context(open_output(path)) for path in kept]
        model = ModelRef(() if run is None else (run,), checkpoint, weights, to, from_)
        scorers = load_scorers(model, reverse, classifier, precision)
        n_models = 2 * (reverse is not None) + (classifier is not None)
        with Progress("scoring", n_models * n_pairs, "scores", shown=output != "-") as progress:
            scored = [score(read_aligned(source, target), progress) for score in scorers]
            if len(scored) == 1:
                scores = collect_scores(scored[0], scores_file)
            else:
                scores = agreed(collect_scores(scored[0]), collect_scores(scored[1]), scores_file)
        messages = [*scores.lines()]
        if keep is not None or min_score is not None:
            values = np.asarray(scores.values)
            is_kept = at_least(values, min_score or 0.0)
            if keep is not None:
                is_kept = best(values, keep)
            messages.append(kept_message(values, is_kept))
            if kept_files:
                write_kept(read_aligned(source, target), is_kept, kept_files)
    for message in messages:
        say(message)


def _problem(keep: float | None, min_score: float | None, kept: list[Path]) -> str | None:
    """Return the error message for invalid values of `nmt filter`; None if they are valid."""
    if keep is not None and not 0 < keep <= 1:
        return f"--keep {keep:g}: must be a share above 0 and at most 1, such as 0.75 for three quarters of the pairs"
    if min_score is not None and not 0 <= min_score <= 1:
        return f"--min-score {min_score:g}: must be between 0 and 1"
    if kept and (len(kept) != 2 or Path("-") in kept):
        return f"--kept takes two files, for source and target, found {' '.join(map(str, kept))}"
    return None
