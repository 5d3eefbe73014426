"""`nmt push`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs
from nmt.cli.options import CheckpointOption, LicenseOption, RunDataOption, WeightsOption
from nmt.console import say, show
from nmt.errors import ConfigError


@app.command()
def push(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Run directory, or a directory written by nmt export.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="Model repository on the Hub.", show_default=False)
    ],
    public: Annotated[bool, typer.Option("--public", help="Create a public repository.  [default: private]")] = False,
    model_license: LicenseOption = None,
    kind: Annotated[
        Literal["folder", "ctranslate2", "transformers"], typer.Option("--format", help="Format of the model.")
    ] = "folder",
    quantization: Annotated[
        Literal["float32", "float16", "int8"] | None,
        typer.Option("--quantization", help="Number format of a CTranslate2 model.  [default: float32]"),
    ] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Score the test sets of the data directory for the model card.")
    ] = False,
    data: RunDataOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Push to a repository with other files, replacing those of the same name."),
    ] = False,
) -> None:
    """Upload a model to the Hugging Face Hub.

    The model and its card are uploaded in one commit. A run is exported first, as by `nmt export`; an exported
    directory is uploaded as it is. A repository that does not exist is created, private unless --public is given. In a
    repository written by nmt push, the model is replaced; the history keeps the former one. The card lists the
    languages, test scores with their signatures, the training data with their licences, the cost of training and the
    settings. It states a licence of the model only with --license.

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
    from nmt.runs.folder import is_folder
    from nmt.share.export import Request, export
    from nmt.share.push import find_repository, push

    exported = is_folder(run)
    if not exported and (run / "tokenizer_config.json").is_file():
        raise ConfigError(
            [f"{run}: has no translator.json; it was exported by an earlier version of nmt: export the run again"]
        )
    if exported and (kind, quantization, checkpoint, weights, evaluate, data, model_license) != (
        "folder", None, "best", "auto", False, None, None
    ):  # fmt: skip
        raise ConfigError([f"{run}: is already exported; name its run instead, or leave out {OF_EXPORT}"])
    if kind != "ctranslate2" and quantization is not None:
        raise ConfigError(["--quantization needs --format ctranslate2"])
    request = Request(run, checkpoint, weights, data, evaluate=evaluate, license=model_license)
    found = find_repository(repository, public, force)
    if public and found.private:
        say(f"{repository}: exists and stays private; change that in its settings on the Hub")
    with TemporaryDirectory() as scratch:
        folder = run
        if not exported:
            written = export(request, Path(scratch) / "export", kind, quantization or "float32")
            folder = written.path
            if written.note is not None:
                show(written.note)
        pushed = push(folder, found)
    visibility = "private" if pushed.private else "public"
    show(f"{pushed.url}: {'pushed' if pushed.changed else 'nothing has changed'}, {visibility}")
    if pushed.kind == "transformers":
        show(f'load it with AutoModelForSeq2SeqLM.from_pretrained("{repository}") of transformers')
    else:
        options = " --engine ctranslate2" if pushed.kind == "ctranslate2" else ""
        show(f"translate with nmt translate --model hf://{repository}{options}")


OF_EXPORT = "--format, --quantization, --checkpoint, --weights, --evaluate, --data and --license"
