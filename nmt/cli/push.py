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
            help="Run directory, or a directory that nmt export wrote.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="Model repository on the hub.", show_default=False)
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
        bool, typer.Option("--evaluate", help="Score the test sets of the data directory, for the model card.")
    ] = False,
    data: RunDataOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Push among files of others, replacing those of the same name."),
    ] = False,
) -> None:
    """Upload a model to the Hugging Face hub, with a model card, in one commit.

    The run is exported as by `nmt export`; a directory that it wrote is uploaded as it is. The repository is created,
    private unless --public, if there is none. In one that nmt push has written, the model is replaced; the history
    keeps the former one. The card has the languages, the scores measured on test sets with their signatures, the
    training data with their licences, the cost of training and the settings. It gives no licence of the model without
    --license.

    The token is that of `hf auth login`, or the variable HF_TOKEN; it needs the permission to write.

    `nmt translate --model hf://OWNER/NAME` translates with the model, hf://OWNER/NAME@REVISION with one of its commits,
    branches or tags. It is downloaded once. With --format transformers the model is for the library Hugging Face
    transformers instead, AutoModelForSeq2SeqLM.from_pretrained("OWNER/NAME"), which nmt does not load.

    \b
    Examples:
      nmt push runs/multi30k-de-en me/multi30k-de-en
      nmt push --public --license cc-by-4.0 --evaluate runs/multi30k-de-en me/multi30k-de-en
      nmt push --format ctranslate2 --quantization int8 runs/multi30k-de-en me/multi30k-de-en-int8
      nmt push --format transformers runs/multi30k-de-en me/multi30k-de-en-transformers
    """
    from nmt.runs.folder import is_folder
    from nmt.share.export import Request, export
    from nmt.share.hub import find_repository, push

    exported = is_folder(run)
    if not exported and (run / "tokenizer_config.json").is_file():
        raise ConfigError(
            [f"{run}: has no translator.json: exported by an earlier version of nmt; export the run again"]
        )
    if exported and (kind, quantization, checkpoint, weights, evaluate, data, model_license) != (
        "folder", None, "best", "auto", False, None, None
    ):  # fmt: skip
        raise ConfigError([f"{run}: is exported and uploaded as it is; name its run, or leave out {OF_EXPORT}"])
    if kind != "ctranslate2" and quantization is not None:
        raise ConfigError(["--quantization needs --format ctranslate2"])
    request = Request(run, checkpoint, weights, data, evaluate=evaluate, license=model_license)
    found = find_repository(repository, public, force)
    if public and found.private:
        say(f"{repository}: exists and stays private; its settings on the hub change that")
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
        show(f'AutoModelForSeq2SeqLM.from_pretrained("{repository}") of transformers loads it')
    else:
        options = " --engine ctranslate2" if pushed.kind == "ctranslate2" else ""
        show(f"nmt translate --model hf://{repository}{options} translates with it")


OF_EXPORT = "--format, --quantization, --checkpoint, --weights, --evaluate, --data and --license"
