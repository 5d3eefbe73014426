"""Export to packages for Argos Translate and LibreTranslate.

    metadata.json          languages and version
    model/                 the model of CTranslate2
    sentencepiece.model    the tokenizer of the source, with a space before the first word
    minisbd/splitter.onnx  the sentence splitter, written by `scripts/argos_splitter.py`; without it, Argos Translate
                           would download one
    README.md              the model card

Argos Translate decodes with the tokenizer of the source, which returns pieces that it does not know unchanged. So
separate vocabularies work, too.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config import Config
from nmt.errors import ConfigError, DataError
from nmt.files.write import alone_in, open_output, writing
from nmt.languages.codes import language_name, parts_of
from nmt.layout import ExportDir
from nmt.runs.folder import Quantization, load_folder
from nmt.runs.model import open_saved
from nmt.share.card import USE
from nmt.share.engine import library
from nmt.share.export import OTHERS_READ, Exported, Request, export_into

SUFFIX = ".argosmodel"
SPLITTER = Path(__file__).with_name("splitter.onnx")

# The fields normalizer_spec and, in it, add_dummy_prefix of SentencePiece's model. A field that is repeated at the end
# of a serialised message replaces the first one, and a repeated message is merged.
_WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal models result in equal packages


def export_argos(request: Request, output: Path, quantization: Quantization = "int8") -> Exported:
    """Write the chosen weights of a run as a package, after comparing the model with the run as `export` does.

    Raises ConfigError for a run that Argos Translate does not support and a name without `.argosmodel`, DataError if
    `output` exists or cannot be written, and what `export` raises.
    """
    library()
    if output.suffix != SUFFIX:
        raise ConfigError(f"--output {output}: the name of an Argos Translate package must end in {SUFFIX}")
    _check(request)
    output = output.absolute()
    with alone_in(output.parent, "exports"):
        if output.exists():
            raise DataError(f"{output}: already exists; choose another file name, or remove this file")
        with writing(output), TemporaryDirectory(dir=output.parent, prefix=f".{output.stem}.") as scratch:
            exported = export_into(request, Path(scratch) / "export", "ctranslate2", quantization)
            with open_output(output) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in _files(ExportDir(exported.path), request.license).items():
                    entry = zipfile.ZipInfo(name, _DATE)
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return replace(exported, path=output, not_carried=())  # Argos Translate ignores all search settings


def _check(request: Request) -> None:
    """Raise ConfigError for a run that Argos Translate does not support."""
    saved = open_saved(request.model)
    saved.check_exports()
    data, model = saved.config.data, saved.config.model
    if saved.tokenizers.imported is not None:
        raise ConfigError(
            f"{request.run}: its tokenizer is not of nmt, and Argos Translate cannot use it; use --format ctranslate2"
        )
    if data.has_language_tags or saved.tokenizers[data.src].tags:
        raise ConfigError(f"{request.run}: has tags, which Argos Translate cannot use; use --format ctranslate2")
    if model.positions == "learned" and model.max_positions < OTHERS_READ:
        raise ConfigError(
            f"{request.run}: has learned positions for {model.max_positions:,} pieces, but Argos Translate reads "
            f"{OTHERS_READ:,}; train with model.max_positions={OTHERS_READ} or sinusoidal positions"
        )
    code = language_code(data.src)
    if code == language_code(data.tgt):
        raise ConfigError(f"{request.run}: Argos Translate has one code, {code}, for {data.src} and {data.tgt}")


def language_code(name: str) -> str:
    """Return the code of Argos Translate and LibreTranslate for a language: of two letters if there is one."""
    language, script, region = parts_of(name)
    if (language, script) == ("zh", "Hant"):
        return "zt"
    return "pb" if (language, region) == ("pt", "BR") else language


def _files(folder: ExportDir, license: str | None) -> dict[str, bytes]:  # noqa: A002
    """Return the files of the package by their names in the archive, from an export for CTranslate2."""
    loaded = load_folder(folder.path)
    config, step = loaded.config, loaded.info.step
    source = folder.tokenizer.joint if loaded.tokenizers.joint else folder.tokenizer.language(config.data.src)
    codes = [language_code(name) for name in config.data.sides]
    model = {f"model/{name}": (folder.path / name).read_bytes() for name in sorted(loaded.checksums)
             if "/" not in name and name != folder.config.name}  # fmt: skip
    card = folder.card.read_text(encoding="utf-8").partition(USE)[0] + _use(config, codes)
    files = {
        "metadata.json": json.dumps(_metadata(config, codes, step, license), indent=2, ensure_ascii=False).encode(),
        "README.md": card.encode(),
        "sentencepiece.model": source.read_bytes() + _WITH_SPACE_BEFORE,
        "minisbd/splitter.onnx": SPLITTER.read_bytes(),
        **model,
    }
    return {f"translate-{'_'.join(codes)}-nmt/{name}": data for name, data in files.items()}


def _metadata(config: Config, codes: list[str], step: int, license: str | None) -> dict[str, str]:  # noqa: A002
    """Return the content of metadata.json, with `license` for readers (Argos Translate ignores it)."""
    return {
        "package_version": f"1.{step}",
        "argos_version": "1.11",
        "from_code": codes[0],
        "from_name": language_name(config.data.src),
        "to_code": codes[1],
        "to_name": language_name(config.data.tgt),
        **({} if license is None else {"license": license}),
    }


def _use(config: Config, codes: list[str]) -> str:
    """Return the last section of the model card, on the use of the package."""
    return f"""{USE}
With this package as `FILE{SUFFIX}`, and Argos Translate 1.11 or newer:

```python
from argostranslate import package, translate

package.install_from_path("FILE{SUFFIX}")
print(translate.translate("A sentence in {language_name(config.data.src)}.", "{codes[0]}", "{codes[1]}"))
```

LibreTranslate offers it, too, once it is installed. Texts are divided into sentences by rules, without a download.
"""
