"""Imported models that learn a language they do not know: letters, pieces, a tag, and several directions."""

from __future__ import annotations

import itertools
import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from command import Command
from fitting import fit
from forced import forced
from m2m import M2M
from nmt.config import Config
from nmt.data.corpus import Corpora
from nmt.errors import DataError
from nmt.layout import DataDir, RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.info import read_info
from nmt.runs.model import open_saved
from nmt.serve.models import load_directions
from nmt.share.export import ExportOptions, export
from nmt.share.public import import_model
from nmt.share.public_vocabulary import ImportOptions
from nmt.text.growth import grown, with_languages
from nmt.text.ids import UNK
from nmt.text.imported import ImportedVocabulary
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from peer import of_transformers
from sentences import sentence_pairs
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("no_coverage")

PAIRS = sentence_pairs(300)
SOURCES, TARGETS = [[pair[side] for pair in PAIRS] for side in (0, 1)]
GEORGIAN, WITH_CARON = "\u10d0", "\u010d"
NEW = [line.replace("e", GEORGIAN).replace("c", WITH_CARON) for line in SOURCES]
LETTERS = {GEORGIAN, WITH_CARON}
NAME = "tyv_Cyrl"
MODELS = {
    "m2m": M2M(updates=60),
    "nllb": M2M(is_nllb=True, updates=60, without=(NAME,)),
}


@dataclass(frozen=True)
class Place:
    """An imported run, and text of a new language."""

    kind: str
    folder: Path
    public: Path

    @property
    def start(self) -> Path:
        return self.folder / "start"

    def config(self, tokenizer: dict[str, object] | None = None, **training: object) -> Config:
        """Return the settings of a run that adds the language to the imported model."""
        files = {name: {language: f"{name}.{language}" for language in (NAME, "de", "en")} for name in ("train", "dev")}
        data = {
            "direction": f"{NAME}-en", "directions": [f"{NAME}-en", f"en-{NAME}", "de-en"],
            "train": [{"files": files["train"]}], "valid": {"files": files["dev"]},
            "test": {"seen": {"files": files["dev"]}},
        }  # fmt: skip
        model = open_saved(self.start).config.model.model_dump()
        size = max(map(len, vocabulary_of(self.start).pieces))
        settings: dict[str, object] = {"vocab_size": size, "like": {NAME: "de"}, **(tokenizer or {})}
        training = {"init_from": str(self.start), **training}
        return tiny_settings(self.folder, data=data, model=model, tokenizer=settings, training=training)

    def prepared(self, name: str, **tokenizer: object) -> Path:
        data = self.folder / name
        if not data.exists():
            prepare(self.config(tokenizer), data, tokenizer_from=self.start, echo=lambda _: None)
        return data

    def trained(self, name: str, data: str = "letters", **training: object) -> Path:
        run = self.folder / name
        if not run.exists():
            fit(self.config(**training), self.prepared(data), run)
        return run


def added(before: Tokenizer, after: Tokenizer) -> set[str]:
    """Return the pieces of text that a grown tokenizer has more."""
    return {*after.pieces(range(after.n_pieces))} - {*before.pieces(range(before.n_pieces))}


def vocabulary_of(run: Path) -> ImportedVocabulary:
    vocabulary = open_saved(run).tokenizers.imported
    assert vocabulary is not None
    return vocabulary


@pytest.fixture(scope="module", params=MODELS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a folder with an imported run, and text of a language that it lacks."""
    folder = tmp_path_factory.mktemp(request.param)
    MODELS[request.param].write(folder / "model", SOURCES, TARGETS)
    import_model(ImportOptions(str(folder / "model"), folder / "start", languages=("de", "en")))
    for name, rows in (("train", slice(0, 200)), ("dev", slice(200, 212))):
        for language, lines in ((NAME, NEW), ("de", SOURCES), ("en", TARGETS)):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines[rows]), encoding="utf-8")
    return Place(request.param, folder, folder / "model")


nllb = pytest.mark.parametrize("place", ["nllb"], indirect=True)


def test_letters_become_pieces_and_other_text_keeps_its_ids(place: Place) -> None:
    before = open_saved(place.start).tokenizers
    after = Corpora.open(DataDir(place.prepared("letters")), place.config().data).tokenizers
    known, new = before["de"], after["de"]
    assert added(known, new) == LETTERS
    assert new.encode_all(SOURCES)[0][1:] == known.encode_all(SOURCES)[0][1:], "apart from the tag"
    assert UNK in known.encode(NEW[0]) and UNK not in new.encode(NEW[0])
    for line in NEW[:50]:
        assert after[NAME].decode(after[NAME].encode(line)) == line
    vocabulary = after.imported
    assert vocabulary is not None and vocabulary.languages is not None
    old = vocabulary_of(place.start)
    if place.kind == "nllb":
        assert vocabulary.pieces[0][: len(old.pieces[0])] == old.pieces[0]
        assert vocabulary.languages[NAME] == NAME
    else:
        assert vocabulary.languages[NAME] == vocabulary.languages["de"] == "__de__"
        assert vocabulary.pieces[0][-1] == old.pieces[0][-1]


OTHER_SCRIPTS = {
    "Georgian": "\u10e1\u10d0\u10ee\u10da\u10d8 \u10d3\u10d8\u10d3\u10d8\u10d0",
    "Amharic": "\u1264\u1271 \u1275\u120d\u1245 \u1290\u12cd\u1362",
    "Khmer": "\u1795\u17d2\u1791\u17c7 \u1792\u17c6",
    "Hebrew": "\u05d4\u05d1\u05d9\u05ea \u05d2\u05d3\u05d5\u05dc",
    "marks": "a\u0304\u0330 \u0272\u025b",
}


@nllb
@pytest.mark.parametrize("line", OTHER_SCRIPTS.values(), ids=OTHER_SCRIPTS)
def test_letters_of_other_scripts_come_back(place: Place, line: str) -> None:
    tokenizers = with_languages(open_saved(place.start).tokenizers, [NAME, "en"], {NAME: "en"})
    tokenizer = grown(tokenizers, [NAME], {NAME: [line], "en": TARGETS}.__getitem__, 0, "bpe")[0][NAME]
    assert tokenizer.decode(tokenizer.encode(line)) == unicodedata.normalize("NFKC", line)
    assert UNK not in tokenizer.encode(line)


def test_learned_pieces_are_merged_after_all_others(place: Place) -> None:
    size = max(map(len, vocabulary_of(place.start).pieces)) + 12
    after = Corpora.open(DataDir(place.prepared("pieces", vocab_size=size)), place.config().data).tokenizers
    before = open_saved(place.start).tokenizers["de"]
    new = added(before, after["de"])
    assert new > LETTERS and 2 < len(new) <= 12
    assert all(LETTERS.intersection(piece) or len(piece) > 1 for piece in new)
    letters = Corpora.open(DataDir(place.prepared("letters")), place.config().data).tokenizers
    assert sum(map(len, after[NAME].encode_all(NEW))) < sum(map(len, letters[NAME].encode_all(NEW)))
    for line in [*NEW, *SOURCES]:  # what was merged before still is
        assert cuts(after["de"], line) <= cuts(letters["de"], line)


def cuts(tokenizer: Tokenizer, line: str) -> set[int]:
    """Return where a line is cut into pieces, as numbers of characters before the cut."""
    return {*itertools.accumulate(map(len, tokenizer.pieces(tokenizer.encode(line)[1:])))}


def test_room_for_letters_of_known_languages_is_filled_by_the_most_frequent(place: Place, tmp_path: Path) -> None:
    for name, rows in (("train", slice(0, 200)), ("dev", slice(200, 212))):
        for language, lines in (("de", NEW), ("en", [line.replace("a", "\u10d1") for line in TARGETS])):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines[rows]), encoding="utf-8")
    files = {name: {language: f"{name}.{language}" for language in ("de", "en")} for name in ("train", "dev")}
    data = {"direction": "de-en", "train": [{"files": files["train"]}], "valid": {"files": files["dev"]}, "test": {}}
    for n in (2, 3):
        size = {"vocab_size": n + max(map(len, vocabulary_of(place.start).pieces))}
        prepare(tiny_settings(tmp_path, data=data, tokenizer=size), tmp_path / f"{n}", place.start, echo=lambda _: None)
        new = Corpora.open(DataDir(tmp_path / f"{n}"), tiny_settings(tmp_path, data=data).data).tokenizers
        letters = [GEORGIAN, "\u10d1", WITH_CARON][:n]
        assert added(open_saved(place.start).tokenizers["de"], new["de"]) == {*letters}
        assert new["de"].pieces(range(len(new["de"]))) == new["en"].pieces(range(len(new["en"])))
        assert new["en"].encode("\u10d1")[-1] == new["de"].encode("\u10d1")[-1] != UNK


def test_new_rows_start_as_letters_without_marks_and_similar_tag(place: Place) -> None:
    run = place.trained("slow", max_steps=1, peak_lr=1e-9, warmup_steps=1, schedule="constant")
    before, after = load_weights(RunDir(place.start).step(0)), load_weights(RunDir(run).step(1))
    ours, theirs = (open_saved(path).tokenizers["de"] for path in (run, place.start))
    tables = [weights["encoder.embedding.weight"] for weights in (after, before)]
    rows = dict(zip(ours.pieces(range(len(ours))), tables[0], strict=True))
    their_rows = dict(zip(theirs.pieces(range(len(theirs))), tables[1], strict=True))
    for name, row in their_rows.items():
        torch.testing.assert_close(rows[name], row, atol=1e-6, rtol=0)
    torch.testing.assert_close(rows[WITH_CARON], their_rows["c"], atol=1e-6, rtol=0)
    torch.testing.assert_close(rows[GEORGIAN], their_rows["<unk>"], atol=1e-6, rtol=0)
    if place.kind == "nllb":
        torch.testing.assert_close(rows[NAME], their_rows["deu_Latn"], atol=1e-6, rtol=0)


def test_frozen_embeddings_learn_only_new_rows(place: Place) -> None:
    settings: dict[str, object] = {"freeze": ["embeddings"], "weight_decay": 0.1, "average_last": 1}
    run = place.trained("frozen", max_steps=4, **settings)
    before, after = load_weights(RunDir(place.start).step(0)), load_weights(RunDir(run).step(4))
    ours, theirs = (open_saved(path).tokenizers["de"] for path in (run, place.start))
    table = after["encoder.embedding.weight"]
    known = {piece: row for row, piece in enumerate(theirs.pieces(range(len(theirs))))}
    pieces = ours.pieces(range(len(ours)))
    old = [row for row, piece in enumerate(pieces) if piece in known]
    assert torch.equal(table[old], before["encoder.embedding.weight"][[known[pieces[row]] for row in old]])
    new = [row for row in range(len(pieces)) if row not in {*old}]
    starts = load_weights(
        RunDir(place.trained("slow", max_steps=1, peak_lr=1e-9, warmup_steps=1, schedule="constant")).step(1)
    )
    assert len(new) == 2 + (place.kind == "nllb")
    assert (table[new] != starts["encoder.embedding.weight"][new]).any(1).all()
    initial = read_info(RunDir(run)).initial
    assert initial is not None and initial.new_rows
    part = place.folder / "part"
    fit(place.config(max_steps=2, **settings), place.prepared("letters"), part)
    fit(place.config(max_steps=4, **settings), place.prepared("letters"), part, resume=True)
    for name, tensor in load_weights(RunDir(part).step(4)).items():
        assert torch.equal(tensor, after[name]), name


def test_run_is_compared_with_its_start_in_the_directions_of_both(place: Place, nmt: Command) -> None:
    run = place.trained("run", max_steps=8)
    data = place.prepared("letters")
    done = nmt("compare", place.start, run, "--data", data, "--split", "seen", "--beam", "1", "--format", "json")
    assert done.status == 0, done.err
    assert done.out.count(str(run)) >= 1


def test_server_offers_new_language_by_its_name(place: Place) -> None:
    run = place.trained("run", max_steps=8)
    models = load_directions(run, "native", int8=False, overrides=[])
    assert {(model.source, model.target) for model in models} == {(NAME, "en"), ("en", NAME), ("de", "en")}


def test_changes_of_directions_are_one_table(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.trained("watching", max_steps=2, watch=["seen"], average_last=1)
    lines = capsys.readouterr().err.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[-3:] == ["start", "now", "change"])
    directions = [f"{NAME}-en", f"en-{NAME}", "de-en"]
    rows = [line.split() for line in lines[first + 1 : first + 7]]
    assert [row[:-3] for row in rows] == [[*name, d] for name in (["development", "set"], ["seen"]) for d in directions]
    for row in rows:
        start, now, change = map(float, row[-3:])
        assert change == pytest.approx(now - start, abs=0.11)


def test_export_gives_equal_ids_and_translations(place: Place, tmp_path: Path) -> None:
    run = place.trained("run", max_steps=8)
    saved = open_saved(run)
    export(ExportOptions(run), tmp_path / "out", "transformers")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert (f"`{NAME}` uses the tag of `de`" in card) == (place.kind == "m2m")
    if (tokenizer_json := tmp_path / "out" / "tokenizer.json").exists():
        vocabulary = json.loads(tokenizer_json.read_text(encoding="utf-8"))["model"]["vocab"]
        assert {piece: vocabulary[piece] for piece in LETTERS} and NAME in vocabulary
    load = of_transformers("AutoTokenizer").from_pretrained
    tokenizer = load(tmp_path / "out")
    tokenizer.save_pretrained(tmp_path / "saved")
    for again in (tokenizer, load(tmp_path / "saved")):
        ids = again(NEW, text_target=TARGETS)
        rows = vocabulary_of(run).original_rows(0)
        for lines, language, name in ((NEW, NAME, "input_ids"), (TARGETS, "en", "labels")):
            expected = [[rows[i] for i in row] for row in saved.tokenizers[language].encode_all(lines)]
            assert [row[:-1] for row in ids[name]] == expected
    model = of_transformers("AutoModelForSeq2SeqLM").from_pretrained(tmp_path / "out").eval()
    translator = Translator.load(run, precision="float32", to="en", source=NAME)
    lines = NEW[:40]
    scores = forced(model, tokenizer, lines, tokenizer(text_target=TARGETS[:40])["input_ids"], n_tags=1)
    scored = translator.score(zip(lines, TARGETS, strict=False))
    assert [score.log_prob for score in scores] == pytest.approx([score.log_prob for score in scored], abs=1e-3)
    if place.kind == "nllb":
        again = import_model(ImportOptions(str(tmp_path / "out"), tmp_path / "again", languages=(NAME, "de", "en")))
        assert again.tokenizers[NAME].encode_all(NEW) == saved.tokenizers[NAME].encode_all(NEW)


def test_ctranslate2_gives_equal_translations(place: Place, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run = place.trained("run", max_steps=8)
    exported = export(ExportOptions(run), tmp_path / "out", "ctranslate2")
    assert exported.comparison is not None and exported.comparison.difference < 1e-4


def test_language_that_model_lacks_needs_a_similar_one(place: Place) -> None:
    with pytest.raises(DataError, match=NAME):
        prepare(place.config({"like": {}}), place.folder / "none", tokenizer_from=place.start, echo=lambda _: None)
    with pytest.raises(DataError, match="like"):
        prepare(
            place.config({"like": {NAME: "de", "de": "en"}}), place.folder / "none", place.start, echo=lambda _: None
        )
    with pytest.raises(DataError, match="like"):
        prepare(place.config(), place.folder / "none", echo=lambda _: None)
    assert not (place.folder / "none").exists()


def test_known_language_by_another_code_is_not_new(place: Place, tmp_path: Path) -> None:
    for language, lines in (("deu", NEW), ("en", TARGETS)):
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines[:200]), encoding="utf-8")
    data = {
        "direction": "deu-en", "directions": ["deu-en", "en-deu"], "valid": 20, "test": {},
        "train": [{"files": {"deu": "train.deu", "en": "train.en"}}],
    }  # fmt: skip
    size = {"vocab_size": max(map(len, vocabulary_of(place.start).pieces))}
    config = tiny_settings(tmp_path, data=data, tokenizer=size)
    prepare(config, tmp_path / "data", place.start, echo=lambda _: None)
    new = Corpora.open(DataDir(tmp_path / "data"), config.data).tokenizers["deu"]
    known = open_saved(place.start).tokenizers["de"]
    assert not added(known, new) and new.pieces(new.opening) == known.pieces(known.opening)
