"""`prepare` from a hub on the loopback interface, with the real clients."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.utils import enable_progress_bars

import labelled
from hub_client import use_hub
from hub_server import Files, Hub, serve
from nmt.config.load import load_config
from nmt.data.corpus import Corpus
from nmt.data.sources import TrainHub
from nmt.errors import DataError, HubError, NmtError
from nmt.layout import DataDir
from nmt.prepare import hub as hub_module
from nmt.prepare.hub import _download, _matching, _resolve, read_hub
from nmt.prepare.pairs import Units
from nmt.prepare.prepare import prepare
from nmt.prepare.sources import read_part
from sentences import sentence_pairs

PARQUET = "refs/convert/parquet"
PAIRS = sentence_pairs(500)
SPLITS = {"train": PAIRS[:400], "validation": PAIRS[400:450], "test": PAIRS[450:]}

PREPARE = """
from nmt.config.load import load_config
from nmt.errors import HubError
from nmt.prepare.prepare import prepare

config = load_config("base.yaml", ["data.dir=data"])
try:
    prepare(config, config.data.directory)
except HubError as error:
    print(error)
"""


def written(table: pa.Table) -> bytes:
    """Return a file of Parquet."""
    pq.write_table(table, buffer := io.BytesIO())
    return buffer.getvalue()


def parquet(pairs: list[tuple[str, str]], n_rows: int | None = None) -> bytes:
    return written(pa.table({"translation": pa.array([{"de": de, "en": en} for de, en in pairs])})[:n_rows])


def json_lines(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(json.dumps({"en": en, "de": de}, ensure_ascii=False) + "\n" for de, en in pairs).encode()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    hub = Hub()
    iwslt = {f"iwslt2017-de-en/{name}/0000.parquet": parquet(pairs) for name, pairs in SPLITS.items()}
    iwslt["iwslt2017-ar-en/train/0000.parquet"] = b"not asked for"
    hub.add("IWSLT/iwslt2017", PARQUET, iwslt)
    hub.add("IWSLT/iwslt2017", "main", {"iwslt2017.py": b"raise SystemExit", "README.md": b""})
    preprocessed = {f"de-en/{name}/0000.parquet": parquet(pairs) for name, pairs in SPLITS.items()}
    preprocessed["de-en/train/0001.parquet"] = parquet([("noch einer", "one more"), ("und noch", "and one\nmore")])
    hub.add("bbaaaa/iwslt14-de-en-preprocess", PARQUET, preprocessed)
    lines = {f"{name}.jsonl": json_lines(pairs) for name, pairs in SPLITS.items()}
    hub.add("bentrevett/multi30k", "main", lines)
    rows = [("ja", "yes"), ("zwei\r\nZeilen ", "two\nlines\n"), ("ohne", None)]
    renamed = "".join(json.dumps({"german": german, "english": english}) + "\n" for german, english in rows)
    hub.add("some/renamed", "main", {"a.jsonl": renamed.encode()})
    hub.add("some/numbers", "main", {"a.jsonl": b'{"de": 5, "en": "five"}\n'})
    hub.unlisted.add("bentrevett/multi30k")
    hub.failing.add("some/failing")
    hub.add("some/broken", "main", {"a.parquet": b"PAR1 and no more", "a.jsonl": b'{"de": "ja"\n'})
    with serve(hub):
        yield hub


class Client:
    """Runs `prepare` with a cache of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *runs: list[str]) -> tuple[str, str]:
        """`prepare` with each of several configs and their overrides: what it wrote on the screen, and the errors."""
        fixed = [
            f"data.dir={self.folder / 'data'}",
            *(f"data.{key}.pairs=null" for key in ("train.0", "valid", "test.test")),
        ]
        for name, *overrides in runs:
            config = load_config(name, [*(fixed[:1] if name == "imdb.yaml" else fixed), *overrides])
            try:
                prepare(config, config.data.directory)
            except NmtError as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return tuple(self._capsys.readouterr())

    def prepare(self, *overrides: str, config: str = "base.yaml") -> str:
        """Run it once, where it must succeed; what it wrote on the screen."""
        said, errors = self.run([config, *overrides])
        assert errors == ""
        return said

    def left(self) -> set[str]:
        """What was written beside the hub's cache."""
        return {path.name for path in self.folder.iterdir()} - {"hf"}


@pytest.fixture
def client(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Client:
    use_hub(hub, tmp_path / "hf", monkeypatch)
    enable_progress_bars()  # as for users
    return Client(tmp_path, capsys)


def test_shipped_configs_are_prepared(hub: Hub, client: Client) -> None:
    expected = {
        "base.yaml": ("IWSLT/iwslt2017", 400),
        "iwslt14.yaml": ("bbaaaa/iwslt14-de-en-preprocess", 402),
        "imdb.yaml": ("stanfordnlp/imdb", 216),
    }
    hub.add("stanfordnlp/imdb", "main", imdb())
    of_config = {"imdb.yaml": ["data.valid=24"]}
    runs = [[name, f"data.dir={client.folder / name}", *of_config.get(name, [])] for name in expected]
    _, errors = client.run(*runs)
    assert errors == ""
    for name, (repository, n_train) in expected.items():
        corpus = Corpus.open(DataDir(client.folder / name))
        assert corpus.split("train").n == n_train
        sources = corpus.manifest.sources
        assert sources is not None and sources["train.0"].corpus == repository
        if name == "imdb.yaml":
            check_labels(corpus)
        else:
            check_pairs(hub, corpus, repository, n_train)


def check_pairs(hub: Hub, corpus: Corpus, repository: str, n_train: int) -> None:
    """The pairs are those of the repository, at its commit."""
    assert [corpus.split(name).n for name in corpus.splits[1:]] == [50, 50]
    for name, pairs in (("valid", SPLITS["validation"]), ("test", SPLITS["test"])):
        assert list(zip(corpus.split(name).text("de"), corpus.split(name).text("en"), strict=True)) == pairs
    train, sources = corpus.split("train"), corpus.manifest.sources
    assert train.text("de")[:400] == [de for de, _ in SPLITS["train"]]
    assert train.text("en")[400:] == (["one more", "and one more"] if n_train == 402 else [])
    assert sources is not None and sources["valid"].commit == hub.commit(repository, PARQUET)
    (path,) = sources["valid"].files
    content = hub.repositories[repository][PARQUET][path]
    assert sources["valid"].files[path].sha256 == hashlib.sha256(content).hexdigest()


def imdb() -> Files:
    """IMDB as its repository has it: the column label holds numbers, whose names are in the metadata."""
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    files = {}
    for name, pairs in (("train", labelled.TRAIN), ("test", labelled.TEST)):
        texts, numbers = [text for text, _ in pairs], [int(label == "pos") for _, label in pairs]
        table = pa.table({"text": texts, "label": pa.array(numbers, pa.int64())}).replace_schema_metadata(metadata)
        files[f"plain_text/{name}-00000-of-00001.parquet"] = written(table)
    return files


def check_labels(corpus: Corpus) -> None:
    """The labels have their names, and some texts are split off."""
    test, split_off = (
        [*zip(split.text("en"), split.text("label"), strict=True)]
        for split in (corpus.split("test"), corpus.split("valid"))
    )
    assert test == labelled.TEST and len(split_off) == 24 and {*split_off} <= {*labelled.TRAIN}


def test_repeated_preparation_does_not_contact_hub(hub: Hub, client: Client) -> None:
    client.prepare()
    hub.requests.clear()
    assert "nothing to do" in client.prepare() and hub.requests == []


def test_unreachable_hub_raises(tmp_path: Path) -> None:
    """In a process of its own, since the client reads its environment when it is imported."""
    with socket.socket() as closed:  # bound and not listening: nobody else takes the port, and it refuses
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
        environment = {**clean, "HF_ENDPOINT": endpoint, "HF_HOME": "hf", "NO_PROXY": "*"}
        command = [sys.executable, "-W", "error", "-c", PREPARE]
        said = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=True, text=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "hf"] == []
    start = f"dataset IWSLT/iwslt2017, revision refs/convert/parquet, at {endpoint}: the Hub cannot be reached: "
    end = "; to do without the Hub, replace hub by files: {LANG: FILE, LANG: FILE} in data.train, data.valid and "
    assert said.stdout.startswith(start) and said.stdout.endswith(f"{end}data.test\n") and said.stderr == ""


FAILURES = {
    "data.valid.hub=some/absent": "HubError: dataset some/absent, revision refs/convert/parquet, at {}: no such",
    "data.valid.hub=some/failing": "HubError: dataset some/failing, revision refs/convert/parquet, at {}: "
    "the Hub responded with status 500: ",
    "data.valid.hub=a/b/c": "HubError: dataset a/b/c, revision refs/convert/parquet, at {}: Repo id must be ",
    "data.valid.revision=v2": "HubError: dataset IWSLT/iwslt2017, revision v2, at {}: no such revision; to do without",
    "data.valid.revision=main": "HubError: dataset IWSLT/iwslt2017, revision main, at {}: "
    "no file matches iwslt2017-de-en/validation/*.parquet; the files are README.md, iwslt2017.py",
    "data.valid.paths=[iwslt2017-de-en/*.parquet]": "HubError: {iwslt}: no file matches iwslt2017-de-en/*.parquet; "
    "the files are iwslt2017-ar-en/train/0000.parquet, iwslt2017-de-en/test/0000.parquet, ",
    "data.valid.columns={de: text, en: text}": "DataError: {valid}: no column named text; the columns are translation.",
    "data.valid.columns=null": "DataError: {valid}: no column for de; the columns are translation.de, translation.en",
    "data.valid={hub: bentrevett/multi30k, paths: [test.jsonl], columns: {de: en.de, en: en.en}}": "DataError: dataset "
    "bentrevett/multi30k, revision COMMIT, at {}, file test.jsonl: no column named en.de; the columns are en, de; ",
    "data.valid={hub: some/numbers, paths: [a.jsonl]}": "DataError: dataset some/numbers, revision COMMIT, at {}, file "
    "a.jsonl: row 1: a number for de, where text is needed",
    "data.valid.pairs=888": "DataError: IWSLT/iwslt2017: has 50 pairs, but the config says pairs: 888; the ",
    "data.valid={hub: some/broken, paths: [a.parquet]}": "DataError: dataset some/broken, revision COMMIT, at {}, file "
    "a.parquet: not readable as parquet: ",
    "data.valid={hub: some/broken, paths: [a.jsonl]}": "DataError: dataset some/broken, revision COMMIT, at {}, file "
    "a.jsonl: not readable as json: ",
}


def test_missing_hub_file_raises(hub: Hub, client: Client) -> None:
    said, errors = client.run(*(["base.yaml", override] for override in FAILURES))
    lines = errors.rstrip("\n").split("\n")
    assert (said, len(lines)) == ("", len(FAILURES)), errors
    for line, expected in zip(lines, FAILURES.values(), strict=True):
        iwslt = f"dataset IWSLT/iwslt2017, revision refs/convert/parquet, at {hub.endpoint}"
        valid = (
            f"dataset IWSLT/iwslt2017, revision COMMIT, at {hub.endpoint}, file iwslt2017-de-en/validation/0000.parquet"
        )
        said = re.sub("[0-9a-f]{40}", "COMMIT", line)
        assert said.startswith(expected.format(hub.endpoint, iwslt=iwslt, valid=valid))
    assert client.left() == set()


def test_hub_that_names_places_outside_the_cache_raises(hub: Hub, client: Client) -> None:
    file, private = "iwslt2017-de-en/validation/0000.parquet", client.folder / "private"
    private.write_bytes(b"private")
    for etag, shas, message in (
        ("../../../../private", {}, "outside the cache"), ("0", {"IWSLT/iwslt2017": "../../../../new"}, "not a commit"),
    ):  # fmt: skip
        hub.etags[file], hub.shas = f'"{etag}"', shas
        _, errors = client.run(["base.yaml"])
        assert errors.startswith("HubError: ") and message in errors
    assert client.left() == {"private"} and private.stat().st_nlink == 1


def test_hub_rows_without_text_or_score_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"de": "ja ", "en": "yes", "s": 0.5}, {"de": "a", "en": "b", "s": None}, {"de": "c", "en": None, "s": 1.0}]
    file = tmp_path / "c.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.setattr(hub_module, "_download", lambda *_: file)
    part, units = TrainHub(hub="a/b", paths=["c.jsonl"], score="s"), Units()
    assert list(read_hub(part, ("de", "en"), units)) == [("ja", "yes", 0.5), ("c", "", 1.0)]
    assert units.skipped == {"no number as score": 1}
    assert [pair[:2] for pair in read_part(part, ("de", "en"), tmp_path, units)] == [("ja", "yes")]
    assert units.skipped == {"no number as score": 2, "no text in en": 1}
    with pytest.raises(DataError, match=r"file c\.jsonl: no column named t; the columns are de, en, s"):
        list(read_hub(part.model_copy(update={"score": "t"}), ("de", "en"), units))


COLUMNS = {"de": "translation.de", "en": ["no", "translation.en"]}


@pytest.mark.parametrize(
    ("name", "content", "columns", "languages", "expected"),
    [
        ("c.jsonl", b"", COLUMNS, ("de", "en"), []),
        ("c.parquet", parquet(PAIRS[:1], 0), COLUMNS, ("de", "en"), []),
        ("c.jsonl", b'{"de": "ja"}\n{"de": ""}\n', None, ("de", "de"), [("ja", "ja"), ("", "")]),
        ("c.parquet", written(pa.table({"de": ["ja", None]})), None, ("de", "de"), [("ja", "ja"), ("", "")]),
    ],
    ids=["no rows of JSON", "no rows", "one column of JSON", "one column"],
)
def test_hub_file_without_rows_or_of_one_language_is_read(
    name: str, content: bytes, columns: Any, languages: Any, expected: object, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(hub_module, "_download", lambda *_: tmp_path / name)
    pairs = read_part(TrainHub(hub="a/b", paths=[name], columns=columns), languages, tmp_path, Units())
    assert [pair[:2] for pair in pairs] == expected


def test_brackets_in_names_of_hub_files_match_themselves() -> None:
    assert _matching(["a[1].jsonl", "a1.jsonl", "b/a[1].jsonl"], "a[1].*") == ["a[1].jsonl"]


@pytest.mark.usefixtures("client")
def test_hub_file_that_is_not_downloaded_raises_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    source = TrainHub(hub="a/b", paths=["c.parquet"])
    for act in (lambda: _resolve(source), lambda: _download(source, "c.parquet", "main")):
        with pytest.raises(HubError, match=r"dataset a/b, .*HF_HUB_OFFLINE is set; to do without the Hub"):
            act()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_local_error_is_not_reported_as_hub_error(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> str:
        raise OSError(number, "trouble here")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", failing)
    with pytest.raises(OSError, match="trouble here") as caught:
        _download(TrainHub(hub="a/b", paths=["c.parquet"]), "c.parquet", "main")
    assert not isinstance(caught.value, HubError) and caught.value.__cause__ is None
