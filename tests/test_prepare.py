"""`prepare` with local files: what it writes, when it works again, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import sentence_pairs, write_pairs

from nmt import prepare as module
from nmt.config import Config
from nmt.config_file import check_config, dump_config
from nmt.data.corpus import Corpus
from nmt.errors import DataError
from nmt.layout import DataDir, RunDir
from nmt.prepare import prepare
from nmt.tokenizer import EOS, UNK, Tokenizer

PAIRS = sentence_pairs(300)
TRAIN, VALID, TEST = PAIRS[:240], PAIRS[240:270], PAIRS[270:]
ODD = [("a\x00b", "c"), ("  zwei  ", ""), ("x\u2028y\ty", "z\u2581"), ("gleich", "gleich"), ("", ""), ("k" * 2000, "l")]


class Workplace:
    """A folder with a small corpus, and `prepare` run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.said: list[str] = []
        self.write(train=TRAIN, valid=VALID, test=TEST)

    def write(self, **files: list[tuple[str, str]]) -> None:
        for name, pairs in files.items():
            write_pairs(self.folder / "text", name, pairs)

    def config(self, direction: str = "de-en", **changes: Any) -> Config:
        """`data__max_chars=5` changes that key."""
        tree: dict[str, Any] = {
            "data": {"direction": direction, "root": str(self.folder / "text"), "train": [files("train")]},
            "tokenizer": {"vocab_size": 400},
        }
        tree["data"] |= {"valid": files("valid"), "test": {"test": files("test")}}
        for key, value in changes.items():
            section, name = key.split("__")
            tree.setdefault(section, {})[name] = value
        return check_config(tree, "test.yaml")

    def prepare(self, tokenizer_from: Path | None = None, **changes: Any) -> str:
        """Run it; what it said."""
        self.said.clear()
        prepare(self.config(**changes), self.data, tokenizer_from, echo=self.said.append)
        return "\n".join(self.said)

    def corpus(self) -> Corpus:
        return Corpus.open(DataDir(self.data))

    def content(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.data)): path.read_bytes() for path in self.data.rglob("*") if path.is_file()}

    def left(self) -> set[str]:
        """What stands beside the text."""
        return {path.name for path in self.folder.iterdir()} - {"text"}


def files(name: str) -> dict[str, Any]:
    return {"files": {"de": f"{name}.de", "en": f"{name}.en"}}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def test_text_and_ids_agree(place: Workplace) -> None:
    place.prepare()
    corpus = place.corpus()
    assert corpus.languages == ("de", "en")
    assert corpus.splits == ("train", "valid", "test")
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        split = corpus.split(name)
        assert split.n == len(pairs)
        for side, language in enumerate(corpus.languages):
            lines = split.text(language)
            assert lines == [pair[side] for pair in pairs]
            ids, ends = split.ids(language), split.ends(language)
            assert (ids.dtype, ends.dtype, split.lengths(language).dtype) == ("uint16", "int64", "int32")
            starts = [0, *ends[:-1]]
            tokenizer = corpus.tokenizers[language]
            assert [tokenizer.decode(ids[s:e]) for s, e in zip(starts, ends, strict=True)] == lines
            assert [tokenizer.encode(line) for line in lines] == [
                ids[s:e].tolist() for s, e in zip(starts, ends, strict=True)
            ]
            assert split.lengths(language).tolist() == [len(tokenizer.encode(line)) for line in lines]
            assert not {UNK, EOS} & set(ids.tolist())


def test_the_report_on_screen(place: Workplace) -> None:
    place.write(
        train=[*TRAIN, TRAIN[0], VALID[3], TEST[4], ("leer", " "), ("Berlin", "Berlin"), ("x" * 1001, "y" * 900)]
    )
    said = place.prepare(tokenizer__vocab_size=300)
    assert [" ".join(line.split()) for line in said.split("\n")[:5]] == [
        "split read kept dropped",
        "train 246 240 6 empty side 1, in a dev or test set 2, too long (characters) 1, copied source 1, duplicate 1",
        "valid 30 30 0",
        "test 30 30 0",
        "vocabulary: 300 pieces for de and en",
    ]
    assert "de: " in said
    assert "pieces per word; of the pieces " in said
    assert "valid: 60 lines come back exactly from their pieces (BLEU 100.0)\n" in said
    assert said.endswith(f"wrote {place.data}")


def test_the_manifest(place: Workplace) -> None:
    place.write(train=[*TRAIN, VALID[0], ("leer", "")])
    place.prepare()
    manifest = json.loads((place.data / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == 1
    assert manifest["languages"] == ["de", "en"]
    assert manifest["config"]["tokenizer"] == {"vocab_size": 400, "joint": True}
    assert manifest["config"]["data"]["max_pieces"] == 250
    assert manifest["tokenizer"]["pieces"] == {"de": 400, "en": 400}
    assert manifest["sources"]["train.0"]["files"]["de"]["name"] == "train.de"
    assert len(manifest["sources"]["train.0"]["files"]["de"]["sha256"]) == 64
    assert (manifest["sources"]["train.0"]["read"], manifest["sources"]["train.0"]["kept"]) == (242, 240)
    assert manifest["splits"]["train"]["clean"]["dropped"] == {"empty": 1, "overlap": 1}
    assert manifest["splits"]["train"]["clean"]["samples"]["overlap"] == [list(VALID[0])]
    assert manifest["splits"]["valid"]["round_trip"] == {"lines": 60, "exact": 60, "control": 0}
    assert set(manifest["files"]) == set(place.content()) - {"manifest.json"}


def test_references_are_never_dropped_or_altered(place: Workplace) -> None:
    place.write(valid=ODD)
    said = place.prepare()
    split = place.corpus().split("valid")
    assert list(zip(split.text("de"), split.text("en"), strict=True)) == ODD
    assert split.lengths("en").tolist()[1] == 0
    assert "valid: 11 lines come back exactly from their pieces (BLEU 100.0); 1 with control characters do not" in said


def test_only_training_text_is_learned_from(place: Workplace) -> None:
    place.write(valid=[("Quatsch", "xylophone")] * 500)
    place.prepare(tokenizer__vocab_size=600)
    tokenizer = place.corpus().tokenizers["de"]
    assert len(tokenizer.encode("Quatsch")) > 3
    assert len(tokenizer.encode("Pferd")) == 1


def test_both_directions_are_the_same_bytes(place: Workplace) -> None:
    place.prepare()
    first = place.content()
    assert "nothing to do" in place.prepare(direction="en-de")
    shutil.rmtree(place.data)
    place.prepare(direction="en-de")
    assert place.content() == first


def test_again_with_nothing_changed_it_does_nothing(place: Workplace) -> None:
    place.prepare()
    times = {path: path.stat().st_mtime_ns for path in place.data.rglob("*")}
    said = place.prepare()
    assert said == f"{place.data} is up to date with 240 training pairs: nothing to do"
    assert {path: path.stat().st_mtime_ns for path in place.data.rglob("*")} == times
    assert "nothing to do" in place.prepare(training__seed=7, data__dir="elsewhere")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer__vocab_size": 350}, "tokenizer.vocab_size was 400, is 350"),
        ({"data__max_chars": 40}, "data.max_chars was 1000, is 40"),
        (
            {"data__test": {}},
            'data.test.test was {"files": {"de": "test.de", "en": "test.en"}, "hub": null..., is null',
        ),
        ({"data__train": [files("train") | {"name": "n"}]}, 'data.train.0.name was null, is "n"'),
        ({"tokenizer__joint": False, "model__tie_embeddings": "none"}, "tokenizer.joint was true, is false"),
    ],
)
def test_a_changed_config_is_named_and_prepared_again(place: Workplace, changes: dict[str, Any], said: str) -> None:
    place.prepare()
    before = place.corpus().fingerprint
    assert place.prepare(**changes).split("\n")[0] == f"preparing {place.data} again: {said}"
    assert "nothing to do" in place.prepare(**changes)
    assert (place.corpus().fingerprint == before) == ("name" in said)
    assert place.left() == {"data"}


def test_a_changed_file_is_named_and_prepared_again(place: Workplace) -> None:
    place.prepare()
    before = place.corpus().fingerprint
    place.write(test=[*TEST, ("neu", "new")])
    text = place.folder / "text"
    said = f"preparing {place.data} again: {text / 'test.de'} has changed; {text / 'test.en'} has changed\n"
    assert place.prepare().startswith(said)
    assert place.corpus().split("test").n == 31
    assert place.corpus().fingerprint != before


def test_a_damaged_directory_is_prepared_again(place: Workplace) -> None:
    place.prepare()
    first = place.content()
    (place.data / "valid.en").write_bytes(first["valid.en"][:-5])
    assert "valid.en: " in place.prepare().split("\n")[0]
    assert place.content() == first
    (place.data / "tokenizer" / "joint.model").unlink()
    assert "joint.model: no such file" in place.prepare().split("\n")[0]
    assert place.content() == first


def test_another_format_is_prepared_again(place: Workplace) -> None:
    place.prepare()
    manifest = json.loads((place.data / "manifest.json").read_bytes())
    (place.data / "manifest.json").write_text(json.dumps(manifest | {"format": 0}))
    with pytest.raises(DataError, match=r"manifest\.json: format 0, this version reads 1; run nmt prepare again"):
        place.corpus()
    assert "it has format 0, this version writes 1" in place.prepare()
    assert "nothing to do" in place.prepare()


def test_what_prepare_did_not_write_is_not_replaced(place: Workplace) -> None:
    place.data.mkdir()
    (place.data / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=r"data: holds thesis\.txt, which prepare did not write, so it is not replaced"):
        place.prepare()
    assert (place.data / "thesis.txt").read_text() == "years of work"
    (place.data / "thesis.txt").unlink()
    place.prepare()
    (place.data / "notes").mkdir()
    (place.data / "notes" / "a.txt").write_text("mine")
    with pytest.raises(DataError, match=r"data: holds notes/a\.txt, which prepare did not write"):
        place.prepare(data__max_chars=50)
    assert (place.data / "notes" / "a.txt").exists()
    shutil.rmtree(place.data)
    place.data.write_text("")
    with pytest.raises(DataError, match="data: a file, where a data directory is to be written"):
        place.prepare()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("step", ["train_tokenizer", "file_facts"])
def test_interrupted_it_leaves_nothing(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    def interrupt(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupt)
        with pytest.raises(error):
            place.prepare()
        assert place.left() == set()
    place.prepare()
    first = place.content()
    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupt)
        with pytest.raises(error):
            place.prepare(data__max_chars=50)
    assert place.content() == first
    assert place.left() == {"data"}


def unequal(place: Workplace) -> None:
    (place.folder / "text" / "valid.en").write_bytes(b"one\n")


def not_utf8(place: Workplace) -> None:
    with (place.folder / "text" / "train.en").open("ab") as file:
        file.write(b"caf\xe9\n")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (unequal, "valid.de has 30 lines, valid.en 1: they must pair line by line"),
        (not_utf8, "train.en: not UTF-8 at line 241, byte 4 of the line (0xE9)"),
        (
            lambda place: (place.folder / "text" / "test.de").unlink(),
            "test.de: no such file; check data.root and files",
        ),
        (lambda place: place.write(train=[]), "data.train: the training corpus is empty: 0 pairs were read"),
        (lambda place: place.write(valid=[]), "data.valid: valid.de is empty: 0 pairs were read"),
        (lambda place: place.write(test=[]), "data.test.test: test.de is empty: 0 pairs were read"),
        (
            lambda place: place.write(train=[("a", ""), ("b", "b"), *TEST]),
            "data.train: all 32 training pairs were dropped: empty side 1, in a dev or test set 30, copied source 1",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    place: Workplace, break_it: Callable[[Workplace], object], message: str
) -> None:
    break_it(place)
    with pytest.raises(DataError) as caught:
        place.prepare()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert place.left() == set()


def test_all_pairs_dropped_for_their_pieces(place: Workplace) -> None:
    with pytest.raises(DataError, match=r"all 240 training pairs were dropped: too long \(pieces\) 240"):
        place.prepare(data__max_pieces=1)
    assert place.left() == set()


def test_the_longest_side_that_is_kept(place: Workplace) -> None:
    place.prepare()
    split = place.corpus().split("train")
    longest = max(split.lengths("de").max(), split.lengths("en").max())
    place.prepare(data__max_pieces=int(longest))
    assert place.corpus().split("train").n == 240
    place.prepare(data__max_pieces=int(longest) - 1)
    assert place.corpus().split("train").n < 240


def test_a_reference_that_does_not_come_back_stops_it(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(test=[("eins", "one"), ("zwei ", "two")])
    decode = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: decode(self, ids).replace("zwei ", "zwei"))
    with pytest.raises(DataError, match=r"^test\.de, line 2: the tokenizer does not give it back as it was$"):
        place.prepare()
    assert place.left() == set()


def test_several_sources_each_with_its_counts(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    long = (" ".join(pair[0] for pair in TRAIN[:6]), " ".join(pair[1] for pair in TRAIN[:6]))
    place.write(train=TRAIN[:100], more=[long, *TRAIN[90:], long[::-1]], last=[("eins", "one"), long])
    place.prepare(data__train=[files("train"), files("more"), files("last")], data__max_pieces=60)
    manifest = place.corpus().manifest
    counts = [(manifest["sources"][f"train.{i}"]["read"], manifest["sources"][f"train.{i}"]["kept"]) for i in range(3)]
    assert counts == [(100, 100), (152, 140), (2, 1)]
    assert manifest["splits"]["train"]["clean"]["dropped"] == {"duplicate": 11, "pieces": 2}
    assert manifest["splits"]["train"]["clean"]["samples"]["pieces"][0] == [side[:120] for side in long]
    assert place.corpus().split("train").n == 241
    assert place.corpus().split("train").text("de")[-1] == "eins"
    assert place.corpus().split("train").lengths("de").max() <= 60


def test_separate_vocabularies(place: Workplace) -> None:
    said = place.prepare(tokenizer__joint=False, tokenizer__vocab_size=450, model__tie_embeddings="target")
    assert "vocabulary: 450 pieces for de\nvocabulary: 450 pieces for en\n" in said
    tokenizers = place.corpus().tokenizers
    assert not tokenizers.joint
    assert len(tokenizers["de"].encode("Pferd")) < len(tokenizers["en"].encode("Pferd"))


def test_a_corpus_too_small_for_the_vocabulary(place: Workplace) -> None:
    said = place.prepare(tokenizer__vocab_size=30_000)
    size = len(place.corpus().tokenizers["de"])
    assert size < 1000
    assert f"vocabulary: {size} pieces for de and en: this text has no more to merge, 30,000 were asked for" in said


def test_a_tokenizer_taken_from_a_data_directory(place: Workplace) -> None:
    place.prepare()
    other = place.data.rename(place.folder / "other")
    place.write(train=TRAIN[:50])
    said = place.prepare(tokenizer_from=other)
    assert "vocabulary: 400 pieces for de and en, not learned from this text" in said
    assert place.corpus().tokenizers.fingerprint == Corpus.open(DataDir(other)).tokenizers.fingerprint
    assert "nothing to do" in place.prepare(tokenizer_from=other)
    assert "tokenizer.reused was" in place.prepare()


def test_a_tokenizer_taken_from_a_run(place: Workplace) -> None:
    place.prepare()
    run = RunDir(place.folder / "run")
    run.path.mkdir()
    shutil.copytree(place.data / "tokenizer", run.tokenizer.path)
    with pytest.raises(DataError, match=r"run: neither manifest\.json nor config\.yaml tells the languages"):
        place.prepare(tokenizer_from=run.path)
    run.config.write_text(dump_config(place.config(direction="en-de")), encoding="utf-8")
    assert "not learned from this text" in place.prepare(tokenizer_from=run.path)


def test_a_tokenizer_that_does_not_suit(place: Workplace) -> None:
    place.prepare()
    other = place.data.rename(place.folder / "other")
    with pytest.raises(DataError, match="absent: neither a run nor a data directory: it has no tokenizer/"):
        place.prepare(tokenizer_from=place.folder / "absent")
    with pytest.raises(DataError, match=r"other: has one joint vocabulary, but .* false; set tokenizer\.joint=true"):
        place.prepare(tokenizer_from=other, tokenizer__joint=False, model__tie_embeddings="none")
    french = {"files": {"de": "train.de", "fr": "train.en"}}
    changes: dict[str, Any] = {"data__train": [french], "data__valid": french, "data__test": {}}
    with pytest.raises(DataError, match="other: its tokenizer is for de and en, the config is for de and fr"):
        place.prepare(tokenizer_from=other, direction="de-fr", **changes)
    assert place.left() == {"other"}
