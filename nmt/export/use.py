"""The last section of a model card: how to translate with the model."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.runs.folder import Kind

USE = "## Use\n"
"""The heading of the last section."""


def use(kind: Kind, direction: str, repository: str | None = None) -> str:
    """Return the section.

    Args:
        direction: source and target language, `de-en`.
        repository: where the model is on the hub, `owner/name`; None: in a directory, which is called DIR.
    """
    where = [] if repository else ["With this directory as `DIR`:", ""]
    lines = _transformers if kind == "transformers" else _nmt
    return "\n".join([*USE.split("\n"), *where, *lines(kind, direction, repository), ""])


def _nmt(kind: Kind, direction: str, repository: str | None) -> Iterator[str]:
    src, tgt = direction.split("-")
    options, module, load = "", "nmt", "Translator.load"
    if kind == "ctranslate2":
        options, module, load = " --engine ctranslate2", "nmt.engine.translator", "load_ctranslate2"
    address, download, model = "DIR", [], '"DIR"'
    if repository is not None:
        address = f"hf://{repository}"
        download, model = ["from nmt.api import download"], f'download("{address}")'
    yield from ("```", f"nmt translate --model {address}{options} --input text.{src} --output text.{tgt}", "```", "")
    yield from ("```python", f"from {module} import {load.split('.')[0]}", *download, "")
    yield f"translator = {load}({model})"
    yield f'translations = translator.translate(["A sentence in {src}."])'
    yield "```"


def _transformers(_: Kind, direction: str, repository: str | None) -> Iterator[str]:
    name, src = repository or "DIR", direction.split("-")[0]
    yield from ("```python", "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer", "")
    yield f'model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("{name}"), AutoTokenizer.from_pretrained("{name}")'
    yield f'lines = tokenizer(["A sentence in {src}."], padding=True, truncation=True, return_tensors="pt")'
    yield "translations = tokenizer.batch_decode(model.generate(**lines), skip_special_tokens=True)"
    yield "```"
