"""Tests of `nmt align`: sentences of documents are aligned, scored and written as nmt prepare reads them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Command
from nmt.data.sources import TrainPath
from nmt.documents.parallel import _joined, direction_of, parallel_text, read_sentences
from nmt.errors import DataError
from nmt.prepare.sources import open_source
from nmt.text import sentence_alignment
from nmt.text.sentence_alignment import align
from tiny_run import write_tiny_run

SAMPLE = Path(__file__).parents[3] / "data" / "sample"


def sample_lines(n: int) -> list[list[str]]:
    return [(SAMPLE / f"train.{code}").read_text(encoding="utf-8").splitlines()[:n] for code in ("de", "en")]


@pytest.mark.parametrize("missing", [[], [range(45)], [range(150, 210)], [range(270, 300)]], ids=str)
@pytest.mark.parametrize("lost", [0, 1], ids=["source", "target"])
def test_sentences_are_aligned_although_some_are_missing_or_joined(lost: int, missing: list[range]) -> None:
    rng = random.Random(1)
    numbers = [n for n in range(300) if rng.random() >= 0.05 and not any(n in block for block in missing)]
    # on the other side every twentieth sentence is joined to the one before
    groups = [[n] for n in range(300) if n % 20 != 19]
    for n in range(18, 300, 20):
        groups[groups.index([n])].append(n + 1)
    lines = sample_lines(300)
    origins: list[list[list[int]]] = [[], []]
    origins[lost], origins[1 - lost] = [[n] for n in numbers], groups
    texts = [
        [" ".join(own[n] for n in group) for group in by_side] for own, by_side in zip(lines, origins, strict=True)
    ]
    found = [
        [{n for i in span for n in own[i]} for own, span in zip(origins, bead[:2], strict=True)]
        for bead in align(*texts)
    ]
    pairs = [(src, tgt) for src, tgt in found if src and tgt]
    # of two joined sentences one may be missing
    right = [(src, tgt) for src, tgt in pairs if src & tgt and len(src ^ tgt) <= (len(src | tgt) == 2)]
    assert len(right) >= 0.95 * len(pairs)
    assert len(set().union(*(src & tgt for src, tgt in right))) >= 0.95 * len(numbers)


def test_bad_translations_do_no_harm() -> None:
    rng = random.Random(1)
    source, target = sample_lines(300)
    kept = [i for i in range(300) if rng.random() >= 0.1]
    beads = align(source, [target[i] for i in kept], ["quux " * rng.randint(1, 60) for _ in source])
    right = [bead for bead in beads if [*bead.src] == [kept[i] for i in bead.tgt] != []]
    assert len(right) >= 0.95 * len(kept)


def test_band_is_widened_only_if_beads_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_alignment, "_WIDTH", 40)
    widths, search = list[int](), sentence_alignment._search

    def recorded(lengths, lexicon, lows, width):
        widths.append(width)
        return search(lengths, lexicon, lows, width)

    monkeypatch.setattr(sentence_alignment, "_search", recorded)
    source, target = sample_lines(200)
    assert len(align(source, target)) >= 195 and len(widths) == 3  # by lengths, then twice with a lexicon
    widths.clear()
    kept = [*range(80), *range(120, 200)]  # so the target is not where its share of the characters is
    beads = align([source[i] for i in kept], target)
    right = [bead for bead in beads if bead.src and [kept[i] for i in bead.src] == [*bead.tgt]]
    assert len(right) >= 155 and len(widths) > 3 and widths[1] > widths[0]


@pytest.mark.parametrize("sizes", [(1, 500), (500, 1), (3, 450)])
def test_texts_of_different_lengths_are_aligned(sizes: tuple[int, int]) -> None:
    beads = align(["a b c."] * sizes[0], ["d e."] * sizes[1])
    assert [sum(len(bead[side]) for bead in beads) for side in (0, 1)] == [*sizes]


@settings(max_examples=30, deadline=None)
@given(*[st.lists(st.text("ab .:漢", min_size=1, max_size=9).filter(str.strip), max_size=12)] * 2)
def test_every_sentence_is_in_one_bead(source: list[str], target: list[str]) -> None:
    if not (source and target):
        return
    beads = align(source, target)
    for side, sentences in enumerate((source, target)):
        assert [i for bead in beads for i in bead[side]] == [*range(len(sentences))]
    assert all(len(bead.src) <= 2 and len(bead.tgt) <= 2 and (bead.src or bead.tgt) for bead in beads)


def test_pairs_with_wrong_words_have_lower_scores() -> None:
    source, target = sample_lines(400)
    target[50:60] = target[390:]
    scores = {pair.src: pair.score for pair in parallel_text(source[:390], target[:390], None).pairs}
    assert all(0 <= score <= 1 for score in scores.values())
    right = sorted(score for src, score in scores.items() if src not in source[50:60])
    assert max(scores.get(src, 0) for src in source[50:60]) < right[len(right) // 20]


def test_translations_are_compared_with_target() -> None:
    source, translations = sample_lines(60)
    source[3:5] = ["漢字です。", "あ。"]
    target = [*translations[:3], " ".join(translations[3:5]), *translations[5:]]
    target[20] = "Something else altogether."
    found = parallel_text(source, target, translations)
    assert found.shapes[2, 1] == 1 and found.shapes[1, 1] >= 57
    assert ("漢字です。あ。", target[3], 1.0) in found.pairs
    assert {pair.score for pair in found.pairs if pair.tgt != target[20]} == {1.0}
    assert all(pair.score < 0.4 for pair in found.pairs if pair.tgt == target[20])


@pytest.mark.parametrize(
    ("first", "second", "between"),
    [
        ("เขามาแล้ว", "ฉันไปแล้ว", " "), ("ລາວມາ", "ຂ້ອຍໄປ", " "), ("គាត់មក។", "ខ្ញុំទៅ។", " "), ("သူသွားသည်။", "သူလာသည်။", " "),
        ("ཡིན།", "རེད།", " "), ("漢字です。", "あ。", ""), ("他走了。", "“好。”", ""), ("He came.", "I went.", " "),
    ],
)  # fmt: skip
def test_joined_sentences_have_a_space_unless_their_script_has_none(first: str, second: str, between: str) -> None:
    assert _joined([first, second]) == f"{first}{between}{second}"


TEXTS = {".ckb": "منداڵان یاری دەکەن.", ".jpn": "子供たちが遊ぶ。", ".mnw": "ကောန်ၚာ်"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a.de", "b.en"), "de-en"),
        (("a.de.docx", "a.pt_BR.odt"), "de-pt_BR"),
        (("a.zh-CN", "a.ckb"), "zh_CN-ckb"),
        (("a.jpn_Jpan.txt", "a.mnw"), "jpn_Jpan-mnw"),
        (("a.jpn", "a.eng"), "jpn-eng"),
        (("a.khm_Khmr", "a.eng_Latn"), "khm_Khmr-eng_Latn"),
        (("a.de", "b.de"), None),
        (("a.docx", "b.docx"), None),
        (("old.orig", "new.de"), None),
    ],
)
def test_direction_is_read_from_names_of_languages(names: tuple[str, str], expected: str | None) -> None:
    texts = [TEXTS.get(Path(name.removesuffix(".txt")).suffix, "The children play. 1, 2") for name in names]
    assert direction_of(*map(Path, names), [[text] for text in texts]) == expected


@pytest.mark.parametrize("text", ["The children play.", "Дети играют.", "1, 2", ""])
@pytest.mark.parametrize("word", ["bak", "src", "tgt", "raw", "tok", "dev", "tst", "old", "new", "log", "csv", "run"])
def test_word_of_three_letters_is_no_language(word: str, text: str) -> None:
    assert direction_of(Path(f"a.{word}"), Path("b.en"), [[text], ["The children play."]]) is None


def test_documents_are_read_as_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>One. Two\tor three?</p><p> </p><p>Four</p>", encoding="utf-8")
    (tmp_path / "a.en").write_text("One. Two\tor three?\n\nFour\n", encoding="utf-8")
    assert read_sentences(tmp_path / "a.html") == read_sentences(tmp_path / "a.en") == ["One.", "Two or three?", "Four"]
    (tmp_path / "a.en").write_text("\n \n\u200b \u00ad\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.en"):
        read_sentences(tmp_path / "a.en")


@pytest.mark.parametrize("suffix", ["tsv", "tmx"])
def test_prepare_reads_written_pairs(suffix: str, nmt: Command, tmp_path: Path) -> None:
    for code, lines in zip(("de", "en"), sample_lines(60), strict=True):
        (tmp_path / f"a.{code}").write_text("\n".join([*lines[:59], f"<{code}> & \u201c1\u201d"]), encoding="utf-8")
    done = nmt("align", tmp_path / "a.de", tmp_path / "a.en", "--output", tmp_path / f"out.{suffix}")
    assert done.status == 0 and "60 pairs (60 1-1)" in done.err, done.err
    source = TrainPath(path=f"out.{suffix}", score="score")
    pairs = [*open_source(source, ("de", "en"), tmp_path).pairs()]
    assert [pair.src for pair in pairs] == read_sentences(tmp_path / "a.de")
    assert [pair.tgt for pair in pairs] == read_sentences(tmp_path / "a.en")
    assert all(pair.score is not None and 0 <= pair.score <= 1 for pair in pairs)


def test_run_translates_source(nmt: Command, tmp_path: Path) -> None:
    run = write_tiny_run(tmp_path / "run")
    for code, lines in zip(("de", "en"), sample_lines(5), strict=True):
        (tmp_path / f"a.{code}").write_text("\n".join(lines), encoding="utf-8")
    done = nmt("align", tmp_path / "a.de", tmp_path / "a.en", "--run", run, "--output", "-")
    assert done.status == 0 and done.out.startswith("de\ten\tscore\n"), done.err
    for files, options, problem in (
        (("a.en", "a.de"), (), "translates from de"),
        (("a.de", "a.en"), ("--direction", "de-fr"), "translates into en"),
    ):
        refused = nmt("align", *(tmp_path / name for name in files), "--run", run, *options, "--output", "-")
        assert refused.status == 2 and problem in refused.err


def test_documents_that_do_not_belong_together_are_reported(nmt: Command, tmp_path: Path) -> None:
    german, english = sample_lines(60)
    one, other, output = tmp_path / "a.de", tmp_path / "a.en", tmp_path / "out.tsv"
    one.write_text("\n".join(german[:20]), encoding="utf-8")
    other.write_text("\n".join(english), encoding="utf-8")
    done = nmt("align", one, other, "--output", output)
    assert done.status == 0 and "warning: most sentences" in done.err, done.err
    written = output.read_bytes()
    one.write_text("Ja.\n" * 3, encoding="utf-8")
    other.write_text("This is a long sentence about many things, and it never ends at all.\n" * 60, encoding="utf-8")
    done = nmt("align", one, other, "--output", output)
    assert done.status == 2 and "no sentences match" in done.err, done.err
    assert output.read_bytes() == written


def test_problems_are_reported(nmt: Command, tmp_path: Path) -> None:
    for name in ("a.de", "a.en", "b.txt"):
        (tmp_path / name).write_text("One.\n", encoding="utf-8")
    one, other, text = (tmp_path / name for name in ("a.de", "a.en", "b.txt"))
    for arguments, found in (
        ((one, other, "--output", tmp_path / "out.csv"), "out.csv"),
        ((one, text, "--output", tmp_path / "out.tsv"), "--direction"),
        ((one, text, "--direction", "de", "--output", tmp_path / "out.tsv"), "--direction de"),
        ((one, tmp_path / "none.en", "--output", tmp_path / "out.tsv"), "none.en"),
        ((one, tmp_path / "c.pdf", "--output", tmp_path / "out.tsv", "--direction", "de-en"), "c.pdf"),
    ):
        done = nmt("align", *arguments)
        assert done.status == 2 and found in done.err and len(done.err.splitlines()) == 1
    assert not [*tmp_path.glob("out.*")]
