"""What a user can ask of a translation: each wish, asked of a whole translator, is fulfilled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from command import run_command
from nmt import Translator
from nmt.errors import ConfigError
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis
from nmt.text.constraints import protected
from nmt.text.tokenizer import Tokenizer
from nmt.translate.mbr import least_risk
from nmt.translate.types import Line, Translation
from tiny_run import BEAM, GREEDY, PLAIN, texts, tiny_config, tiny_model, tiny_tokenizer, words, write_run

pytestmark = pytest.mark.usefixtures("no_coverage")

LINES = [" ".join(words(1 + n % 11, seed=n)) for n in range(1000)]


@pytest.fixture(scope="module")
def run_dir(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config()
    return write_run(tmp_path_factory.mktemp("runs") / "tiny", config, tokenizer, tiny_model(config, tokenizer))


def changed(search: SearchConfig, **settings: object) -> SearchConfig:
    return SearchConfig.model_validate(search.model_dump() | settings)


def ids_of(translator: Translator, lines: list[str], search: SearchConfig) -> list[list[int]]:
    return [list(best.parts[0].tgt_ids) for best, *_ in translator.translate_lines(lines, search)]


def repeats(ids: list[int], n: int) -> bool:
    ngrams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize("search", [GREEDY, BEAM, changed(GREEDY, sample=True)], ids=["greedy", "beam", "sample"])
def test_length_and_repeat_limits_hold_for_a_thousand_sentences(translator: Translator, search: SearchConfig) -> None:
    free = ids_of(translator, LINES, search)
    assert any(repeats(ids, 2) for ids in free)
    assert not any(repeats(ids, 2) for ids in ids_of(translator, LINES, changed(search, no_repeat_ngram=2)))
    assert not all(4 <= len(ids) <= 6 for ids in free)
    short, long = ({"max_length_ratio": 0.0, "max_length_offset": n} for n in (7, 16))
    held = ids_of(translator, LINES, changed(search, min_length=4, **short))
    assert all(4 <= len(ids) <= 6 for ids in held)
    assert all(len(ids) == 15 for ids in ids_of(translator, LINES[:50], changed(search, min_length=15, **long)))


@pytest.mark.parametrize("search", [GREEDY, BEAM, changed(GREEDY, sample=True)], ids=["greedy", "beam", "sample"])
def test_translation_starts_with_prefix(translator: Translator, search: SearchConfig) -> None:
    lines = [
        Line(line, prefix) for line, prefix in zip(PLAIN, ["", "mali bore ", "Ünrú \U0001f600", "ta"] * 2, strict=True)
    ]
    found = [best.text for best, *_ in translator.translate_lines(lines, search)]
    assert all(text.startswith(line.prefix.rstrip()) for text, line in zip(found, lines, strict=True))
    free = texts(translator, PLAIN, search)
    assert found[0] == free[0]
    # what a search would have said anyway is no constraint at all
    if not search.sample:
        same = [Line(line, text[: len(text) // 2]) for line, text in zip(PLAIN, free, strict=True)]
        assert all(
            best.text.startswith(line.prefix.rstrip())
            for line, [best] in zip(same, translator.translate_lines(same, search), strict=True)
        )


def test_gpu_uses_larger_batches(translator: Translator) -> None:
    def sizes(device: str, settings: SearchConfig) -> list[int]:
        made = []
        patch.setattr(translator.searcher, "device", torch.device(device))
        fake = lambda batch, *_: made.append(len(batch)) or [[found]] * len(batch)  # noqa: E731
        patch.setattr(translator.searcher, "search_batch", fake)
        texts(translator, PLAIN[:1] * 600, settings)
        return sorted(made, reverse=True)

    found = Hypothesis([7], -1.0, -1.0, finished=True)
    with pytest.MonkeyPatch.context() as patch:
        assert sizes("cpu", GREEDY) == [*[128] * 4, 88]
        assert sizes("cpu", SearchConfig(beam=5))[:2] == [64, 64]
        assert sizes("cuda", GREEDY) == [512, 88]
        assert sizes("cuda", changed(GREEDY, batch_tokens=4096))[0] < 512
        assert translator.forced_decoder(GREEDY).max_tokens == 16384


def test_translation_contains_terms(translator: Translator) -> None:
    terms = [
        (),
        ("mali",),
        ("Ünrú \U0001f600", "7,5 %"),
        ("ta", "ta"),
        ("https://a.example/b?c=1",),
        (),
        ("x",),
        ("bore go",),
    ]
    lines = [Line(line, terms=wanted) for line, wanted in zip(PLAIN, terms, strict=True)]
    for search in (GREEDY, BEAM):
        found = [best.text for best, *_ in translator.translate_lines(lines, search)]
        for text, wanted in zip(found, terms, strict=True):
            assert all(text.count(term) >= wanted.count(term) for term in wanted)
        free = texts(translator, PLAIN, search)
        assert [text for text, wanted in zip(found, terms, strict=True) if not wanted] == [
            text for text, wanted in zip(free, terms, strict=True) if not wanted
        ]
    for settings in ({"sample": True}, {"diversity_groups": 3}, {"no_repeat_ngram": 2}):
        with pytest.raises(ConfigError, match="terms need plain beam search"):
            list(translator.translate_lines(lines, changed(BEAM, **settings)))
        with pytest.raises(ConfigError, match=r"search\.protect: terms need plain beam search"):
            translator.translate_lines(lines, changed(BEAM, protect=True, **settings))


def test_translation_contains_protected_text(translator: Translator) -> None:
    things = ["https://example.org/a?b=c", "who@example.org", "1.234,5", "<b>", "{name}", "%s", "12:30"]
    lines = [f"{line} {thing} {line}" for line, thing in zip(PLAIN, things, strict=False)]
    for line, text, thing in zip(lines, texts(translator, lines, changed(BEAM, protect=True)), things, strict=True):
        assert thing in text, line
    assert not all(thing in text for text, thing in zip(texts(translator, lines, BEAM), things, strict=True))


def test_inline_tags_keep_their_order(translator: Translator) -> None:
    wrapped = ["<b>{}</b>", "<i>{0}</i> <b>{0}</b>", '<a href="x">{0}<br/></a> {0}', "<b>{0}</b> <b>{0}</b> &amp; 7"]
    lines = [each.format(line) for each, line in zip(wrapped, PLAIN, strict=False)]
    for text, line in zip(texts(translator, lines, changed(BEAM, protect=True)), lines, strict=True):
        assert re.findall("<[^<>]*>", text) == re.findall("<[^<>]*>", line)
        assert all(other in text for other in protected(line))


def test_custom_patterns_are_protected(translator: Translator) -> None:
    own = changed(BEAM, protect=["Ü[A-Z]+-[0-9]+"])
    assert "ÜB-12" in texts(translator, [f"{PLAIN[0]} ÜB-12"], own)[0]
    with pytest.raises(ConfigError, match=r"search\.protect: terms need plain beam search"):
        translator.translate_lines(PLAIN, changed(own, sample=True))


@pytest.mark.parametrize("search", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_split_lines_are_translated_sentence_by_sentence(translator: Translator, search: SearchConfig) -> None:
    sentences = [f"{line.capitalize()}." for line in PLAIN]
    lines = [f"{a} {b}" for a, b in zip(sentences, reversed(sentences), strict=True)]
    alone = texts(translator, sentences, search)
    always = changed(search, split="always")
    assert texts(translator, lines, always) == [f"{a} {b}" for a, b in zip(alone, reversed(alone), strict=True)]
    assert texts(translator, sentences, always) == alone
    assert not any(best.whole for [best] in translator.translate_lines(sentences, always))
    for split in ("long", "never"):
        assert all(len(best.parts) == 1 for [best] in translator.translate_lines(lines, changed(search, split=split)))
    for found in translator.translate_lines(lines, changed(BEAM, split="always"), n_best=3):
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    [[first]] = translator.translate_lines(lines[:1], always)
    assert first.log_prob == pytest.approx(sum(sum(each) for each in _forced(translator, first)), abs=1e-4)


def _forced(translator: Translator, translation: Translation) -> list[list[float]]:
    return translator.forced_decoder().log_probs([(part.src_ids, part.tgt_ids) for part in translation.parts])


def test_mbr_translation_equals_direct_choice(translator: Translator) -> None:
    samples = changed(BEAM, sample=True, seed=5)
    for search, n in ((samples, 8), (BEAM, 3)):
        found = translator.translate_lines(PLAIN, search, n_best=n)
        expected = [[each.text for each in sorted(candidates, key=lambda each: -each.score)] for candidates in found]
        risk = changed(search, mbr="chrf", beam=n)
        assert texts(translator, PLAIN, risk) == [each[least_risk(each)] for each in expected]
    with pytest.raises(ConfigError, match=r"search\.mbr: chrf chooses among several translations"):
        translator.translate_lines(PLAIN, changed(GREEDY, mbr="chrf"))
    with pytest.raises(ConfigError, match=r"n_best: search\.mbr chooses one translation, found n_best 2"):
        translator.translate_lines(PLAIN, changed(BEAM, mbr="chrf"), n_best=2)


def test_ensemble_with_itself_equals_run(run_dir: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    alone, twice = (Translator.load(path, device="cpu", precision="float32") for path in (run_dir, [run_dir, run_dir]))
    for one, two in zip(alone.translate_lines(PLAIN, BEAM, 3), twice.translate_lines(PLAIN, BEAM, 3), strict=True):
        assert [each.text for each in one] == [each.text for each in two]
        assert [each.score for each in one] == pytest.approx([each.score for each in two], abs=1e-5)
    config = tiny_config()
    other = write_run(tmp_path / "other", config, tokenizer, tiny_model(config, tokenizer, seed=8))
    assert texts(Translator.load([run_dir, other], device="cpu"), PLAIN) != texts(alone, PLAIN)
    strange = write_run(tmp_path / "strange", config, tiny_tokenizer(seed=500), tiny_model(config, tokenizer))
    with pytest.raises(ConfigError, match=r"strange: its tokenizer differs from .*tiny; they cannot form an ensemble"):
        Translator.load([run_dir, strange])
    joining = tiny_config()
    joining = joining.model_copy(update={"training": joining.training.model_copy(update={"modifiers": {"join": 0.5}})})
    joins = write_run(tmp_path / "joins", joining, tokenizer, tiny_model(config, tokenizer))
    with pytest.raises(ConfigError, match=r"training\.modifiers\.join"):
        Translator.load([joins, run_dir])


def test_python_search_output_equals_command(run_dir: Path, tmp_path: Path) -> None:
    by_hand = Translator.load(str(run_dir)).translate(PLAIN, beam=3, length_penalty=0.5)
    (tmp_path / "in").write_text("\n".join(PLAIN))
    said = run_command("translate", "--run", run_dir, "--beam", 3, "--length-penalty", 0.5, "--input", tmp_path / "in")
    assert (said.status, said.out.splitlines()) == (0, by_hand)
    with pytest.raises(TypeError, match="takes a list of texts"):
        Translator.load(run_dir).translate("mali")
    with pytest.raises(ConfigError, match=r"search\.bream: no such setting; did you mean search\.beam\?"):
        Translator.load(run_dir).translate(PLAIN, bream=3)
