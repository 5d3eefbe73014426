"""The commands for sharing models: `nmt import`, `nmt export` and `nmt push`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import CheckpointOption, LicenseOption, RunDataOption, RunOption, WeightsOption, option, runs
from nmt.cli.refusals import refuse
from nmt.console import say, show
from nmt.errors import ConfigError
from nmt.runs.kinds import KINDS, Kind, Quantization

EvaluateOption = Annotated[bool, option("--evaluate", "Score the test sets of the data directory for the model card.")]


@app.command("import")
def import_(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_PATH",
            help="Repository on the Hub, OWNER/NAME or OWNER/NAME@REVISION, directory, or .npz or .zip of Marian.",
        ),
    ],
    run: Annotated[Path | None, option("--run", "Run directory to write.  [default: runs/NAME]", "DIR")] = None,
    direction: Annotated[
        str | None,
        option("--direction", "Source and target language, such as de-en.  [default: those of the model]", "D"),
    ] = None,
    languages: Annotated[
        str | None,
        option("--languages", "Languages of an M2M-100 or NLLB model to translate between, such as cs,de,en.", "L,L"),
    ] = None,
    to: Annotated[
        str | None,
        option("--to", "Target language of a model with several, as its tags name it: deu for >>deu<<.", "LANG"),
    ] = None,
    keep_pieces_of: Annotated[
        list[Path],
        option(
            "--keep-pieces-of",
            "Text, named FILE.LANGUAGE, whose pieces are kept and the others removed; repeatable.",
            "F",
        ),
    ] = [],
) -> None:
    """Turn a public Marian or M2M-100 model into a run.

    The model, such as OPUS-MT or NLLB, is a repository on the Hugging Face Hub or a directory, in the format of Hugging
    Face transformers (model_type: marian or m2m_100) or of Marian. The run has weights and tokenizer, but no optimizer
    state. All commands take it like a run that nmt has trained: translate with it, evaluate it, adapt it to other text
    (`nmt train --init-from`), train a small student of it (`nmt distil`), serve or export it. The licence of its model
    card is kept in the run and in every card made from it.

    --keep-pieces-of makes the model smaller and faster: of the vocabulary, only the pieces of these texts, single
    characters and tags are kept, and other text is spelled in these. The texts should be those that the model will be
    adapted to and will translate.

    Of a model with several target languages, --to selects one. Otherwise, translation needs --to, or a tag such as
    >>deu<< at the start of each line.

    A model that Marian itself has trained is imported from its directory, its .npz file or an archive of OPUS-MT; give
    --direction. Its vocabularies, which decoder.yml names, must be beside it: .spm, or .yml with source.spm and
    target.spm. Pre-norm models and those with other decoders than Transformers are not supported.

    M2M-100 and NLLB models translate between many languages. Choose two with --direction, or several with --languages:
    the run then translates in all of their directions, with `nmt translate --to LANG --from LANG`.

    \b
    Examples:
      nmt import Helsinki-NLP/opus-mt-de-en
      nmt import Helsinki-NLP/opus-mt-en-gmq --to swe --direction en-sv --run runs/en-sv
      nmt import Helsinki-NLP/opus-mt-de-en --keep-pieces-of ours.de --keep-pieces-of ours.en
      nmt import downloads/opus-mt-tc-big-en-es --direction en-es
      nmt import marian/model.npz --direction de-en --run runs/marian
      nmt import facebook/m2m100_418M --languages cs,de,en,fr
      nmt import facebook/nllb-200-distilled-600M --direction de-en
    """
    from nmt.share.public import import_model
    from nmt.share.public_vocabulary import ImportOptions

    names = []
    if languages is not None:
        names = [name.strip().replace("-", "_") for name in languages.split(",")]
        if len({*names}) < len(names) or len(names) < 2 or direction is not None:
            raise ConfigError("--languages: needs two or more different languages, and no --direction")
    imported = import_model(ImportOptions(name, run, direction, names, to, keep_pieces_of))
    for line in imported.lines():
        show(line)


@app.command()
def export(
    output: Annotated[Path, option("--output", "Directory to write; for argos a file.", "DIR")],
    kind: Annotated[Kind, option("--format", "Format to write.")] = "folder",
    run: RunOption = None,
    quantization: Annotated[
        Quantization | None,
        option("--quantization", "Number format of the weights.  [default: float32; argos and web: int8]"),
    ] = None,
    shortlist: Annotated[
        bool, option("--shortlist", "With ctranslate2: score only pieces that the source may need, which is faster.")
    ] = False,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    check: Annotated[
        Path | None,
        option("--check", "Lines for the comparison.  [default: the development set]", "F"),
    ] = None,
    check_lines: Annotated[
        int | None,
        option("--check-lines", "Number of lines to compare.  [default: 100; onnx and web: 200]", "N", min=1),
    ] = None,
    npm_packages: Annotated[
        Path | None,
        option("--npm-packages", "For web: directory of the packages.  [default: fetched by npm]", "DIR"),
    ] = None,
    evaluate: EvaluateOption = False,
    data: RunDataOption = None,
    model_license: LicenseOption = None,
) -> None:
    """Export a run as a directory for use on any machine.

    --format folder: weights, configuration, tokenizer and a model card (README.md). Use it with `nmt translate --model
    DIR`.

    --format ctranslate2: the same files, with the model in the format of CTranslate2, a fast inference library for
    CPUs, in float32, float16 or int8. Requires the package ctranslate2. Lines of the development set are translated
    with both engines; the number of identical translations and the difference of their scores are printed, and a model
    that does not match the run is an error. Use it with `nmt translate --model DIR`.

    --shortlist computes, in every step, only the scores of frequent pieces and of likely translations of the source
    pieces, which are learned from training pairs (IBM model 1) and written to vmap.txt. Probabilities are normalised
    over these pieces. It has no effect on sampling and with prefixes.

    --format transformers: a directory that Hugging Face transformers loads with AutoModelForSeq2SeqLM and
    AutoTokenizer, without nmt. It requires model.tie_embeddings: all, and does not support post-norm with learned
    positions.

    --format argos: a file X.argosmodel for Argos Translate and LibreTranslate (argostranslate 1.11 or newer). It is
    compared with the run as for CTranslate2.

    --format onnx: a directory for ONNX Runtime and transformers.js, in float32 or int8, which decode greedily. Requires
    the packages of the extra onnx. It is compared with the run as for CTranslate2; in float32, nearly all translations
    must be identical.

    --format web: a directory with that model and a page that translates in the browser, without a server: any host of
    static files can serve it. Requires the packages of the extra onnx, and npm or --npm-packages.

    The model card lists the scores on the development set, test scores of these weights recorded by nmt evaluate
    (--evaluate measures them now), the training data with their licences (license of a source in the config) and the
    settings. --license states the licence of the model, which is also written to metadata.json of argos.

    \b
    Examples:
      nmt export --run runs/multi30k-de-en --output multi30k-de-en
      nmt export --format ctranslate2 --quantization int8 --shortlist --output multi30k-de-en-int8
      nmt export --format transformers --output multi30k-de-en-transformers
      nmt export --format ctranslate2 --output small --check news.de --check-lines 1000
      nmt export --format argos --output german-english.argosmodel
      nmt export --format web --output site
    """
    from nmt.cli.defaults import run_or_newest
    from nmt.evaluate.run import score_tests
    from nmt.runs.model import ModelRef
    from nmt.share.export import ExportOptions, export

    model = ModelRef((run_or_newest(run),), checkpoint, weights)
    scored = partial(score_tests, run=model.path, data=data) if evaluate else None
    request = ExportOptions(model, data, check, check_lines, scored, shortlist, model_license)
    if kind == "argos":
        from nmt.share.export import export_argos

        exported = export_argos(request, output, quantization)
    elif kind == "web":
        from nmt.share.export import export_web

        exported = export_web(request, output, quantization, npm_packages)
    else:
        exported = export(request, output, kind, quantization)
    if exported.comparison is not None:
        show(str(exported.comparison))
    for note in exported.notes:
        show(note)
    for record in exported.scores:
        scores = ", ".join(f"{score.value:.2f} {score.signature}" for score in record.scores)
        show(f"{record.name}: {scores}")
    show(f"{output}: written")


@app.command()
def push(
    context: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Run directory, or a directory written by nmt export.",
            autocompletion=runs,
        ),
    ],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Model repository on the Hub.")],
    public: Annotated[bool, option("--public", "Create a public repository.  [default: private]")] = False,
    model_license: LicenseOption = None,
    kind: Annotated[Kind, option("--format", "Format of the model, but not argos or web.")] = "folder",
    quantization: Annotated[
        Quantization | None,
        option("--quantization", "Number format of the weights.  [default: float32]"),
    ] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    evaluate: EvaluateOption = False,
    data: RunDataOption = None,
    force: Annotated[
        bool,
        option("--force", "Push to a repository with other files, replacing those of the same name."),
    ] = False,
) -> None:
    """Upload a model to the Hugging Face Hub.

    The model and its card are uploaded in one commit. A run is exported first, as by `nmt export`; an exported
    directory is uploaded as it is. A repository that does not exist is created, private unless --public is given. In a
    repository written by nmt push, the model is replaced; the history keeps the former one. The card lists the
    languages, test scores with their signatures, the training data with their licences, the cost of training and the
    settings. The licence of the model is that of --license or, without it, of the public model on which it is based.

    Authentication uses the token of `hf auth login` or of the environment variable HF_TOKEN, which needs write access.

    Use the model with `nmt translate --model hf://OWNER/NAME`, or hf://OWNER/NAME@REVISION for a commit, branch or tag.
    It is downloaded only once. A model pushed with --format transformers is loaded by Hugging Face transformers, with
    AutoModelForSeq2SeqLM.from_pretrained("OWNER/NAME"), and not by nmt.

    \b
    Examples:
      nmt push runs/multi30k-de-en me/multi30k-de-en
      nmt push --public --license cc-by-4.0 --evaluate runs/multi30k-de-en me/multi30k-de-en
      nmt push --format ctranslate2 --quantization int8 runs/multi30k-de-en me/multi30k-de-en-int8
      nmt push --format transformers runs/multi30k-de-en me/multi30k-de-en-transformers
    """
    from nmt.evaluate.run import score_tests
    from nmt.runs.folder import is_folder
    from nmt.runs.model import ModelRef
    from nmt.share.export import ExportOptions, export
    from nmt.share.push import find_repository, push

    exported = is_folder(run)
    if not exported and (run / "tokenizer_config.json").is_file():
        raise ConfigError(
            f"{run}: has no translator.json; it was exported by an earlier version of nmt; export the run again"
        )
    if exported:
        refuse(context, "exported")
    if not KINDS[kind].is_on_hub:
        raise ConfigError(f"--format {kind}: is not for the Hub; write it with nmt export, and publish the files")
    scored = partial(score_tests, run=run, data=data) if evaluate else None
    request = ExportOptions(ModelRef((run,), checkpoint, weights), data, evaluate=scored, license=model_license)
    state = find_repository(repository, public, force)
    if public and state.private:
        say(f"{repository}: already exists and remains private; change its visibility in its settings on the Hub")
    with TemporaryDirectory() as scratch:
        folder = run
        if not exported:
            written = export(request, Path(scratch) / "export", kind, quantization)
            folder = written.path
            for note in written.notes:
                show(note)
        pushed = push(folder, state)
    visibility = "private" if pushed.private else "public"
    change = "pushed" if pushed.changed else "nothing has changed"
    show(f"{pushed.url}: {change}, {visibility}")
    show(KINDS[pushed.kind].from_hub(repository))
