"""The folder of `nmt export --format web`; tests/processes/test_web_page.py opens it in a browser."""

from __future__ import annotations

import gzip
import json
import re
import stat
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from export_run import write_run
from nmt.config import Config
from nmt.errors import ConfigError, DataError
from nmt.share import web
from nmt.share.export import ExportOptions, export_web
from nmt.text.imported import ImportedVocabulary
from nmt.text.profiles import Profiles
from nmt.text.vocabularies import Tokenizers
from places import ROOT
from tiny_run import tiny_config, tiny_tokenizer
from web_folder import make_folder, make_packages, with_directions

SHELL = 150_000
"""Most bytes of all that loads before the translator."""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_packages(tmp_path / "packages", monkeypatch)


def about_of(folder: Path) -> Any:
    return json.loads((folder / "about.json").read_text(encoding="utf-8"))


def kept_of(folder: Path) -> dict[str, tuple[int, str]]:
    content = (folder / "files.js").read_text(encoding="utf-8")
    return json.loads(content.removeprefix("globalThis.FILES = ").removesuffix(";\n"))


class Addresses(HTMLParser):
    """The addresses in a page, and the texts of an element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_every_file_that_the_page_names_is_in_the_folder(packages: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", packages)
    named = {*Addresses((folder / "index.html").read_text(encoding="utf-8")).found, "about.json", "worker.js", "sw.js"}
    for script in folder.rglob("*.js"):
        imported = re.findall(r'(?:from|import)\s*\(?"(\.[^"]*)"', script.read_text(encoding="utf-8"))
        named |= {(script.parent / name).resolve().relative_to(folder.resolve()).as_posix() for name in imported}
    assert {name for name in named if not (folder / name).is_file()} == set()
    assert {"lib/ort.js", "lib/transformers.js", "translator.js", "patterns.js"} <= named


def test_files_of_the_page_are_listed_with_size_and_hash(packages: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", packages)
    unkept = {"sw.js", "files.js", "model/README.md", "model/translator.json"}
    contents = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    expected = {
        name: [path.stat().st_size, sha256(path.read_bytes()).hexdigest()]
        for name, path in contents.items()
        if name not in unkept
    }
    assert kept_of(folder) == expected
    first = sum(path.stat().st_size for name, path in contents.items() if not name.startswith(("lib/", "model/")))
    assert first < SHELL


def test_page_names_no_other_host(packages: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", packages)
    own = [path for path in folder.iterdir() if path.suffix in (".html", ".js", ".css", ".json")]
    addresses = {address for path in own for address in re.findall(r"https?://[^\s\"'`<)]+", path.read_text("utf-8"))}
    assert addresses <= {"http://localhost:8000."}, "only the advice for a page that was opened as a file"
    assert not any(found.startswith("/") for found in Addresses((folder / "index.html").read_text("utf-8")).found)


def test_policy_of_the_page_is_that_of_its_threads() -> None:
    page, worker = (files("nmt.share.web").joinpath(name).read_text("utf-8") for name in ("index.html", "sw.js"))
    [of_page] = re.findall(r'content="(default-src [^"]*)"', page)
    assert of_page in worker and "default-src 'none'" in of_page and "connect-src 'self'" in of_page


def test_runtime_is_imported_from_the_folder(packages: Path, tmp_path: Path) -> None:
    script = (make_folder(tmp_path / "out", packages) / "lib/transformers.js").read_text()
    assert script.count('from"./ort.js"') == 2 and "onnxruntime" not in script


def settings(config: Config, section: str, **changes: object) -> Config:
    return config.model_copy(update={section: getattr(config, section).model_copy(update=changes)})


def test_model_of_one_direction_has_no_tags(packages: Path, tmp_path: Path) -> None:
    config = settings(tiny_config(), "search", split="long", max_length_ratio=1.5, max_length_offset=7, min_length=2)
    letters = {"de": {"[ـ]": ""}}
    tokenizers = Tokenizers(
        dict.fromkeys(("de", "en"), tiny_tokenizer()), joint=True, profiles=Profiles(profiles={}, letters=letters)
    )
    about = about_of(make_folder(tmp_path / "out", packages, config, tokenizers))
    assert about == {
        "directions": [{"source": "de", "target": "en", "pieces": [], "letters": letters["de"]}],
        "split": "long", "max_pieces": config.data.max_pieces, "is_lossless": True, "n_pieces": len(tiny_tokenizer()),
        "max_length_ratio": 1.5, "max_length_offset": 7, "min_length": 2,
    }  # fmt: skip


def test_each_direction_has_the_tag_of_its_target(packages: Path, tmp_path: Path) -> None:
    config = settings(with_directions(tiny_config(), "de-en", "en-de"), "search", tags=["domain=help"])
    tags = ["domain=help", "to=de", "to=en"]
    tokenizers = Tokenizers(dict.fromkeys(("de", "en"), tiny_tokenizer()), joint=True).with_tags(tags)
    directions = about_of(make_folder(tmp_path / "out", packages, config, tokenizers))["directions"]
    assert [[each["source"], each["target"], *each["pieces"]] for each in directions] == [
        ["de", "en", ">>to=en<<", ">>domain=help<<"], ["en", "de", ">>to=de<<", ">>domain=help<<"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (None, [["de", "deu", ">>deu<<"], ["de", "zho_Hans", ">>zho_Hans<<"]]),
        ("deu", [["de", "en", ">>deu<<"]]),
    ],
)
def test_targets_of_an_imported_model_are_directions(
    packages: Path, tmp_path: Path, to: str | None, expected: list[list[str]]
) -> None:
    model = tiny_tokenizer().model
    pieces = ["</s>", "<unk>", ">>deu<<", ">>zho_Hans<<", "a", "<pad>"]
    vocabulary = ImportedVocabulary(direction="de-en", pieces=[pieces], padding="<pad>", unknown="<unk>", end="</s>")
    tokenizers = Tokenizers.of_import(vocabulary, {"de": model, "en": model})
    config = settings(tiny_config(), "search", to=to)
    about = about_of(make_folder(tmp_path / "out", packages, config, tokenizers))
    assert [[each["source"], each["target"], *each["pieces"]] for each in about["directions"]] == expected
    assert not about["is_lossless"]


def test_model_card_is_text_in_the_page(packages: Path, tmp_path: Path) -> None:
    card = "---\nlicense: mit\n---\n# A <script>\n\n- `x` & <b>y</b>\n---\nend\n"
    folder = make_folder(tmp_path / "out", packages, card=card, licence="<i>other")
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "# A &lt;script&gt;\n\n- `x` &amp; &lt;b&gt;y&lt;/b&gt;\n---\nend" in page
    assert "license: mit" not in page and "&lt;i&gt;other" in page
    assert Addresses(page).tags.count("script") == 1


def test_run_becomes_a_page_with_its_model(packages: Path, tmp_path: Path) -> None:
    done = export_web(ExportOptions(write_run(tmp_path / "run"), check_lines=2), tmp_path / "out", None, packages)
    assert done.path == tmp_path / "out" and done.not_carried == ["beam"]
    assert set(kept_of(done.path)) >= {"lib/ort.js", "model/tokenizer.json", "model/onnx/encoder_model_quantized.onnx"}
    page = (done.path / "index.html").read_text(encoding="utf-8")
    assert "Translation from de to en" in page and "Licence of the model: not stated" in page
    assert "from_pretrained" not in page, "visitors need no code"


def test_failed_export_leaves_no_page(packages: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (tmp_path / "blank").write_text("\n \n")
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match="blank"):  # after the libraries have been copied
        export_web(ExportOptions(run, check=tmp_path / "blank"), tmp_path / "out", None, packages)
    assert {path.name for path in tmp_path.iterdir()} - before <= {".exports.lock"}


def test_folder_needs_npm_or_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=re.escape(web.PACK)) as error:
        web.copy_libraries(tmp_path)
    assert "--npm-packages" in str(error.value) and len(error.value.problems) == 1


@pytest.mark.parametrize(("status", "error"), [(0, None), (1, DataError)])
def test_npm_fetches_the_packages_without_scripts(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, error: type[DataError] | None
) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    does = f'echo "$@" > {tmp_path}/asked\ncp {packages}/*.tgz .\necho npm error E404 >&2\nexit {status}\n'
    npm.write_text(f"#!/bin/sh\n{does}")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    folder = tmp_path / "out"
    folder.mkdir()
    if error is None:
        web.copy_libraries(folder)
        assert (folder / "lib/ort.js").is_file()
    else:
        with pytest.raises(error, match="E404"):
            web.copy_libraries(folder)
    assert (tmp_path / "asked").read_text().split() == [*web.PACK.split()[1:], "--ignore-scripts"]


@pytest.mark.parametrize("damage", ["missing", "cut", "not an archive", "another version", "lacks a file"])
def test_damaged_package_is_one_error(packages: Path, tmp_path: Path, damage: str) -> None:
    path = packages / web.LIBRARIES[-1][0]
    content = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(content[:-100])
        case "not an archive":
            path.write_bytes(b"<html>Not found</html>")
        case "another version":
            path.write_bytes(gzip.compress(gzip.decompress(content).replace(b"wasm = {}", b"wasm = []")))
        case "lacks a file":
            path.write_bytes((packages / web.LIBRARIES[0][0]).read_bytes())
    with pytest.raises(DataError, match=re.escape(str(path))) as error:
        make_folder(tmp_path / "out", packages)
    assert len(error.value.problems) == 1 and web.PACK in str(error.value)


def test_files_of_the_page_are_packaged() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [patterns] = re.findall(r'"nmt\.share\.web" = \[(.*)\]', settings)
    names = [item.name for item in files("nmt.share.web").iterdir() if item.is_file() and not item.name.endswith(".py")]
    assert names and all(f'"*{Path(name).suffix}"' in patterns for name in names)
