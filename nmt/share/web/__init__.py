"""A page that translates in the browser: `nmt export --format web`.

Any static host serves the folder, and nothing else is needed: ONNX Runtime runs the model by transformers.js, and both
are copied from their npm packages. The functions that split and read text are nmt's in JavaScript; their patterns are
translated by scripts/web_patterns.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.config import Config
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.write import write_file
from nmt.languages.directions import TO
from nmt.text.vocabularies import Tokenizers

_TRANSFORMERS = "4.3.1"
_RUNTIME = "1.31.0-dev.20260914-8d85527a0"  # the ONNX Runtime on which it depends
PACK = f"npm pack @huggingface/transformers@{_TRANSFORMERS} onnxruntime-web@{_RUNTIME}"
"""The command that fetches the packages."""
LIBRARIES = [line.split() for line in f"""\
huggingface-transformers-{_TRANSFORMERS}.tgz dist/transformers.web.min.js lib/transformers.js \
cc66a4de933cc21f0158dcbf72607721bfed0044d3791b2e9874f653659f979b
huggingface-transformers-{_TRANSFORMERS}.tgz LICENSE transformers-license.txt \
cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30
onnxruntime-web-{_RUNTIME}.tgz dist/ort.wasm.bundle.min.mjs lib/ort.js \
17b52c1ac62b421dc508b4c28b9a9675251c6e25dd512ef54b83a5e2c4242869
onnxruntime-web-{_RUNTIME}.tgz dist/ort-wasm-simd-threaded.wasm lib/ort-wasm-simd-threaded.wasm \
06ba057753da3847e4c24f02d91ab133455b0817c69a44993a9a53a2146df9e3
""".splitlines()]  # fmt: skip
"""The files that are copied: archive, path, new name (some hosts serve .mjs as text), and SHA-256."""
MOST_BYTES = 1 << 25
"""More than any of these files has."""
_OWN = (".html", ".css", ".js", ".svg", ".txt")


def write_page(
    directory: Path,
    config: Config,
    tokenizers: Tokenizers,
    card: str,
    licence: str | None,
) -> None:
    """Write the page to a directory with a model of `--format onnx` in `model/` and the libraries. Raises OSError.

    card: the model card in Markdown. licence: the licence of the model, if it is known.
    """
    own = [*files("nmt.share.web").iterdir()]
    own += (files("nmt.serve.page").joinpath(name) for name in ("page.css", "icon.svg"))
    for resource in own:
        if resource.name.endswith(_OWN):
            write_file(directory / resource.name, resource.read_bytes())
    index = directory / "index.html"
    page = index.read_text(encoding="utf-8")
    texts = {"licence": licence or "not stated", "card": re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL)}
    for place, text in texts.items():
        page = page.replace(f"<!-- {place} -->", escape(text))
    write_file(index, page.encode())
    write_file(directory / "about.json", json.dumps(_about(config, tokenizers), ensure_ascii=False).encode())
    list_files(directory)


def list_files(directory: Path) -> None:
    """Write files.js, which lists the files of a page with their sizes and SHA-256."""
    kept = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name not in ("README.md", "translator.json", "sw.js", "files.js"):
            content = path.read_bytes()
            kept[path.relative_to(directory).as_posix()] = len(content), sha256(content).hexdigest()
    write_file(directory / "files.js", f"globalThis.FILES = {json.dumps(kept, indent=0)};\n".encode())


def _fetch(directory: Path) -> None:
    """Fetch the packages with npm, without installing them."""
    advice = f"; run {PACK} on any machine, and give the directory of its files with --npm-packages"
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError(f"--format web needs npm, which is not installed{advice}")
    command = [npm, *PACK.split()[1:], "--ignore-scripts"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise DataError(f"npm cannot fetch the packages of --format web: {error_text(done.stderr)}{advice}")


def copy_libraries(directory: Path, packages: Path | None = None) -> None:
    """Copy transformers.js and ONNX Runtime into a directory, where the former imports the latter.

    packages: a directory with the files that `PACK` writes; None: the command is run. Raises ConfigError if npm is not
    installed, DataError if a package is missing, damaged or of another version, or OSError.
    """
    if packages is None:
        with TemporaryDirectory() as scratch:
            packages = Path(scratch)
            _fetch(packages)
            copy_libraries(directory, packages)
        return
    (directory / "lib").mkdir()
    for archive, member, name, digest in LIBRARIES:
        path = packages / archive
        try:
            with tarfile.open(path) as package:
                file = package.extractfile(f"package/{member}")
                content = b"" if file is None else file.read(MOST_BYTES)
            if sha256(content).hexdigest() != digest:
                raise ValueError(member)
        except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
            raise DataError(f"{path}: missing or damaged; run {PACK} in {packages}") from error
        if name == "lib/transformers.js":
            content = re.sub(rb'(?<=from)"onnxruntime-(?:common|web/webgpu)"', b'"./ort.js"', content)
        write_file(directory / name, content)


def _about(config: Config, tokenizers: Tokenizers) -> dict[str, Any]:
    """Return the content of about.json: what the page knows of the model beside the files in `model/`."""
    search = config.search
    source = tokenizers[config.data.src]
    return {
        "directions": [*_directions(config, tokenizers)],
        "split": "always" if config.joins_sentences and search.split != "never" else search.split,
        "max_pieces": config.data.max_pieces,
        "is_lossless": source.is_lossless,
        "n_pieces": len(source),
        **search.model_dump(include={"max_length_ratio", "max_length_offset", "min_length"}),
    }


def _directions(config: Config, tokenizers: Tokenizers) -> Iterator[dict[str, Any]]:
    """Yield the languages of each direction, the pieces before its sources, and the usual letters of its sources."""
    data = config.data
    search = config.search
    for src, tgt in data.all_sides:
        tokenizer = tokenizers[src]
        tags = list(search.tags or ())
        choices = {tgt: search.to or tokenizer.to}
        if data.has_language_tags:
            tags.insert(0, f"{TO}{tgt}")
        elif tokenizer.target_languages and choices[tgt] is None:
            choices = {name: name for name in tokenizer.target_languages}
        for target, tag in choices.items():
            pieces = [f">>{name}<<" for name in (*tags, tag) if name]
            yield {"source": src, "target": target, "pieces": pieces, "letters": dict(tokenizer.letters)}
