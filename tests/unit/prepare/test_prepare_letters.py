"""`prepare` with letters that stand for one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from folders import Folder
from nmt.config import Config
from nmt.errors import ConfigError
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import append, prepare
from nmt.text.vocabularies import Tokenizers

NOUNS = ["کتاب", "خانه", "میز", "درخت", "شهر", "ماشین", "سیب", "یخ", "کوه", "دریا"]
VERBS = ["می\u200cبیند", "می\u200cخرد", "می\u200cکشد", "می\u200cگیرد", "می\u200cنویسد"]
ENGLISH = ["book", "house", "table", "tree", "city", "car", "apple", "ice", "mountain", "sea"]
SEES = ["sees", "buys", "pulls", "takes", "writes"]
PAIRS = [
    (f"the {ENGLISH[i]} {SEES[k]} the {ENGLISH[j]}.", f"{first} {second} {verb}.")
    for i, first in enumerate(NOUNS)
    for j, second in enumerate(NOUNS)
    for k, verb in enumerate(VERBS)
]
OTHER_FORMS = str.maketrans({"ی": "ي", "ک": "ك"})
REPAIR = {"repair": ["letters"]}


def respelled(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(src, f"\u200f{tgt.translate(OTHER_FORMS)}") for src, tgt in pairs]


def source(name: str) -> dict[str, Any]:
    return {"files": {"en": f"{name}.en", "fa": f"{name}.fa"}}


class PersianFolder(Folder):
    def write(self, **files: list[tuple[str, str]]) -> None:
        for name, pairs in files.items():
            (self.folder / "text").mkdir(parents=True, exist_ok=True)
            for side, language in enumerate(("en", "fa")):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (self.folder / "text" / f"{name}.{language}").write_text(text, encoding="utf-8")

    def config(self, direction: str = "en-fa", **changes: Any) -> Config:
        wanted = {"data__train": [source("train")], "data__valid": source("valid")}
        return super().config(direction, **(wanted | {"data__test": {"test": source("test")}} | changes))

    def text(self, split: str) -> list[str]:
        return (self.data / f"{split}.fa").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def place(tmp_path: Path) -> PersianFolder:
    place = PersianFolder(tmp_path)
    place.write(train=PAIRS[:400], valid=PAIRS[400:450], test=respelled(PAIRS[450:]))
    return place


def dropped(place: Folder) -> dict[str, int]:
    return dict(place.manifest()["sources"]["train.0"]["dropped"])


@pytest.mark.parametrize("overlap", ["exact", "normal", "either"])
def test_respelled_held_out_pairs_overlap(place: PersianFolder, overlap: str) -> None:
    place.write(test=respelled(PAIRS[:50]))
    place.prepare(data__clean={"overlap": overlap})
    assert dropped(place)["overlap"] == 50


def test_respelled_pairs_are_duplicates(place: PersianFolder) -> None:
    place.write(train=[*PAIRS[:400], *respelled(PAIRS[:30])])
    place.prepare()
    assert dropped(place) == {"duplicate": 30}


def test_respelled_lines_of_a_split_off_set_are_shared(place: PersianFolder) -> None:
    place.write(train=[*PAIRS[:400], *(("another line", tgt) for _, tgt in respelled(PAIRS[:400]))])
    place.prepare(data__valid=20)
    assert dropped(place)["shared"] >= 20


CYRILLIC = [(src.replace("e", "е"), tgt) for src, tgt in PAIRS[450:]]


@pytest.mark.parametrize("test", [respelled(PAIRS[450:]), CYRILLIC], ids=["Persian", "Cyrillic in English"])
def test_other_forms_in_a_test_set_give_a_warning_unless_they_are_repaired(
    place: PersianFolder, test: list[tuple[str, str]]
) -> None:
    place.write(test=test)
    said = place.prepare()
    assert [line for line in said.splitlines() if "data.test.test" in line and "repair: [letters]" in line]
    assert "data.train.0 (train.en), fa" not in said
    assert "[letters]" not in place.prepare(data__clean=REPAIR)
    assert (place.data / "test.en").read_text(encoding="utf-8").splitlines() == [src for src, _ in PAIRS[450:]]
    if test is CYRILLIC:
        tokenizer = Tokenizers.load(DataDir(place.data).tokenizer, ["en", "fa"])["en"]
        assert tokenizer.encode("thе tаblе") == tokenizer.encode("the table")


def test_same_forms_everywhere_give_no_warning(place: PersianFolder) -> None:
    place.write(test=PAIRS[450:])
    assert "[letters]" not in place.prepare()


@pytest.mark.parametrize("sizes", [Sizes(), Sizes(part_pairs=64, shard_pairs=100)])
def test_repair_writes_the_most_frequent_forms_in_all_text(place: PersianFolder, sizes: Sizes) -> None:
    place.write(train=[*PAIRS[:300], *respelled(PAIRS[300:400])], mono=respelled(PAIRS[:50]))
    place.prepare(sizes=sizes, data__clean=REPAIR, data__mono={"fa": [{"files": {"fa": "mono.fa"}}]})
    assert place.text("test") == [tgt for _, tgt in PAIRS[450:]]
    tokenizer = Tokenizers.load(DataDir(place.data).tokenizer, ["en", "fa"])["fa"]
    texts = [path.read_text(encoding="utf-8") for path in place.data.glob("*.fa")]
    assert len(texts) >= 4
    for lines in (text.splitlines() for text in texts):
        assert not {*"يك\u200f"} & {*"".join(lines)}
        assert [tokenizer.decode(ids) for ids in tokenizer.encode_all(lines)] == lines
    assert not {*"يك"} & {*"".join(tokenizer.pieces(range(len(tokenizer))))}


def test_tokenizer_reads_other_forms_alike_only_in_their_language(place: PersianFolder) -> None:
    place.prepare(data__clean=REPAIR)
    tokenizers = Tokenizers.load(DataDir(place.data).tokenizer, ["en", "fa"])
    line, other = (text for (_, text) in (PAIRS[7], respelled(PAIRS[7:8])[0]))
    assert tokenizers["fa"].encode(other) == tokenizers["fa"].encode(line)
    assert tokenizers["en"].encode(other) != tokenizers["en"].encode(line)
    assert tokenizers.with_tags(["a=b"])["fa"].encode(other) == tokenizers["fa"].encode(line)


def test_reused_tokenizer_keeps_its_forms(place: PersianFolder) -> None:
    place.prepare(data__clean=REPAIR)
    other = PersianFolder(place.folder / "other")
    other.write(train=respelled(PAIRS[:400]), valid=respelled(PAIRS[400:450]), test=PAIRS[450:])
    other.prepare(place.data, data__clean=REPAIR)
    assert other.text("train") == [tgt for _, tgt in PAIRS[:400]]
    assert other.text("valid") == [tgt for _, tgt in PAIRS[400:450]]


def test_forms_of_several_pairs_are_those_of_all_their_text(place: PersianFolder) -> None:
    few = respelled(PAIRS[:60])
    place.write(few=few)
    (place.folder / "text" / "few.de").write_text("".join(f"{src} !\n" for src, _ in few), encoding="utf-8")
    german = {"files": {"de": "few.de", "fa": "few.fa"}}
    several = {"data__directions": ["fa-de", "fa-en"], "data__train": [german, source("train")]}
    several |= {"data__valid": 10, "data__test": {}, "data__clean": REPAIR}
    prepare(place.config("fa-en", **several, tokenizer__vocab_size=600), place.data, echo=lambda _: None)
    texts = [path.read_text(encoding="utf-8") for path in place.data.glob("*/*.fa")]
    assert len(texts) == 4 and not {*"يك\u200f"} & {*"".join(texts)}
    tokenizer = Tokenizers.load(DataDir(place.data / "de-fa").tokenizer, ["de", "fa"])["fa"]
    assert not {*"يك\u200f"} & {*"".join(tokenizer.pieces(range(len(tokenizer))))}


@pytest.mark.parametrize(("before", "now"), [({}, REPAIR), (REPAIR, {})])
def test_reused_vocabulary_without_the_same_repair_is_rejected(
    place: PersianFolder, before: dict[str, Any], now: dict[str, Any]
) -> None:
    place.prepare(data__clean=before)
    other = PersianFolder(place.folder / "other")
    other.write(train=respelled(PAIRS[:400]), valid=PAIRS[400:450], test=PAIRS[450:])
    assert "letters" in other.refused(place.data, data__clean=now) and not other.data.exists()


def test_lines_that_become_blank_are_dropped_as_empty(place: PersianFolder) -> None:
    blank = [("a dash", "ـ"), ("two dashes", "ــ"), ("a mark and a dash", "\u200fـ")]
    place.write(train=[*PAIRS[:100], *blank], mono=[*PAIRS[:50], *blank])
    place.prepare(data__clean=REPAIR, data__mono={"fa": [{"files": {"fa": "mono.fa"}}]})
    assert dropped(place) == {"empty": 3}
    assert place.manifest()["sources"]["mono.fa.0"]["dropped"] == {"blank": 3}
    assert all(line.strip() for name in ("train", "mono") for line in place.text(name))


def test_fingerprints_depend_on_the_forms_of_letters(place: PersianFolder) -> None:
    place.write(test=PAIRS[450:])
    place.prepare()
    before = place.corpus()
    place.prepare(data__clean=REPAIR)
    after = place.corpus()
    assert [*after.split("train").text("fa")] == [*before.split("train").text("fa")]
    plain = before.tokenizers.fingerprint
    assert after.fingerprint != before.fingerprint and after.tokenizers.fingerprint != plain
    DataDir(place.data).tokenizer.profiles.unlink()
    assert Tokenizers.load(DataDir(place.data).tokenizer, ["en", "fa"]).fingerprint == plain


def test_appended_corpus_has_the_forms_of_the_directory(place: PersianFolder) -> None:
    sizes = Sizes(part_pairs=64, shard_pairs=100)
    place.write(train=PAIRS[:300], more=respelled(PAIRS[300:400]))
    place.prepare(sizes=sizes, data__clean=REPAIR)
    append(place.config(data__train=[source("train"), source("more")], data__clean=REPAIR), place.data, sizes=sizes)
    texts = [path.read_text(encoding="utf-8") for path in place.data.glob("train.1-*.fa")]
    assert sorted("".join(texts).splitlines()) == sorted(tgt for _, tgt in PAIRS[300:400])


def test_text_without_such_letters_is_prepared_alike_with_the_repair(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    place.prepare()
    before = {name: text for name, text in place.content().items() if name.startswith(("train.", "valid.", "test."))}
    place.prepare(data__clean=REPAIR)
    assert before.items() <= place.content().items()


def test_repair_of_letters_in_a_single_corpus_is_rejected(place: PersianFolder) -> None:
    with pytest.raises(ConfigError, match=r"data\.train\.0\.clean\.repair"):
        place.prepare(data__train=[source("train") | {"clean": REPAIR}])
