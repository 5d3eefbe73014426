"""Packages of Argos Translate, which LibreTranslate reads, too: a zip archive with one directory.

    metadata.json          languages and version
    model/                 the model of CTranslate2
    sentencepiece.model    the tokenizer of the source, with a space before the first word
    minisbd/splitter.onnx  the sentence splitter (`nmt.export.splitter`); without one it would be downloaded
    README.md              the model card

Argos Translate decodes by the tokenizer of the source. Where the target has its own, its pieces are unknown to that
one, which gives them back as they are; so separate vocabularies work, too.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config import Config
from nmt.engine.bindings import library
from nmt.errors import ConfigError, DataError
from nmt.export.export import OTHERS_READ, Exported, Request, export_into
from nmt.export.splitter import splitter
from nmt.export.use import USE
from nmt.files.write import sync
from nmt.layout import ExportDir
from nmt.runs.folder import Quantization, alone_in, load_folder
from nmt.runs.model import open_saved
from nmt.text.language_names import language_name, normalized

SUFFIX = ".argosmodel"
_CODES = {"pt_br": "pb", "zh_tw": "zt", "zh_hant": "zt"}
"""Codes that Argos Translate and LibreTranslate have for a language of a region."""

# The fields normalizer_spec and, in it, add_dummy_prefix of SentencePiece's model. A field that comes again at the end
# of a serialised message replaces the first one, and a message is merged.
_WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal models make equal packages


def export_argos(request: Request, output: Path, quantization: Quantization = "int8") -> Exported:
    """Write the chosen weights of a run as a package; the model is compared with the run as `export` does.

    Raises ConfigError for a run that a package cannot hold and a name without `.argosmodel`, DataError if `output`
    exists or cannot be written, and what `export` raises.
    """
    library()
    if output.suffix != SUFFIX:
        raise ConfigError([f"--output {output}: the name of a package of Argos Translate ends in {SUFFIX}"])
    _check(request)
    output = output.absolute()
    with alone_in(output.parent):
        if output.exists():
            raise DataError(f"{output}: exists; name another file, or remove this one")
        try:
            with TemporaryDirectory(dir=output.parent, prefix=f".{output.stem}.") as scratch:
                exported = export_into(request, Path(scratch) / "export", "ctranslate2", quantization)
                part = Path(scratch) / output.name
                _write(part, _files(ExportDir(exported.path), request.license))
                part.rename(output)
                sync(output.parent)
        except OSError as error:
            raise DataError(f"{output}: cannot be written: {error.strerror or error}") from error
    return replace(exported, path=output)


def _check(request: Request) -> None:
    """Raise ConfigError for a run that a package cannot hold."""
    saved = open_saved(request.run, request.checkpoint, request.weights)
    saved.check_exports()
    data, model = saved.config.data, saved.config.model
    if model.positions == "learned" and model.max_positions < OTHERS_READ:
        raise ConfigError(
            [
                f"{request.run}: has learned positions for {model.max_positions:,} pieces, and Argos Translate reads "
                f"{OTHERS_READ:,}; train with model.max_positions={OTHERS_READ} or sinusoidal positions"
            ]
        )
    if language_code(data.src) == language_code(data.tgt):
        raise ConfigError(
            [f"{request.run}: Argos Translate has one code, {language_code(data.src)}, for {data.src} and {data.tgt}"]
        )


def language_code(name: str) -> str:
    """Return the code that Argos Translate has for a language of a config: without a region, but for a few."""
    return _CODES.get(normalized(name), normalized(name).split("_")[0])


def _files(folder: ExportDir, license: str | None) -> dict[str, bytes]:  # noqa: A002
    """Return the files of the package, in the directory of the archive, from an export for CTranslate2."""
    loaded = load_folder(folder.path)
    config, step = loaded.config, loaded.info.step
    source = folder.tokenizer.joint if loaded.tokenizers.joint else folder.tokenizer.language(config.data.src)
    codes = [language_code(name) for name in (config.data.src, config.data.tgt)]
    model = {f"model/{name}": (folder.path / name).read_bytes() for name in sorted(loaded.checksums)
             if "/" not in name and name != folder.config.name}  # fmt: skip
    card = folder.card.read_text(encoding="utf-8").partition(USE)[0] + _use(config, codes)
    files = {
        "metadata.json": json.dumps(_metadata(config, codes, step, license), indent=2, ensure_ascii=False).encode(),
        "README.md": card.encode(),
        "sentencepiece.model": source.read_bytes() + _WITH_SPACE_BEFORE,
        "minisbd/splitter.onnx": splitter(codes[0]),
        **model,
    }
    return {f"translate-{'_'.join(codes)}-nmt/{name}": data for name, data in files.items()}


def _metadata(config: Config, codes: list[str], step: int, license: str | None) -> dict[str, str]:  # noqa: A002
    """Return the content of metadata.json; Argos Translate leaves its `license` unread."""
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
    """Return the end of the model card."""
    return f"""{USE}
With this package as `FILE{SUFFIX}`, and Argos Translate 1.11 or newer:

```python
from argostranslate import package, translate

package.install_from_path("FILE{SUFFIX}")
print(translate.translate("A sentence in {config.data.src}.", "{codes[0]}", "{codes[1]}"))
```

LibreTranslate offers it, too, once it is installed. Texts are divided into sentences by rules, without a download.
"""


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    sync(path)
