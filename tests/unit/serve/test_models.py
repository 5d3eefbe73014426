"""Tests of directions with real models: the same texts as `nmt translate`, and the choice of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from export_run import LINES, write_run
from nmt.errors import ConfigError, DataError, NmtError
from nmt.search.settings import SearchConfig
from nmt.serve.limits import Refusal
from nmt.serve.models import Models, load_direction, load_models
from nmt.serve.service import Service, TextOptions
from nmt.share.export import engine_for
from nmt.text.constraints import Glossary
from nmt.translate.align import word_spans
from nmt.translate.loading import Translator
from nmt.translate.types import MAX_PARTS, Line, Options, Sentence, Translation
from served import MadeUp

LONG_URL = f"https://example.org/{'a' * 400}"
SEARCH = ("search.beam=3", "search.max_length_ratio=1.0")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("serve") / "de-en")


@pytest.fixture(scope="module")
def direction(run: Path) -> Translator:
    return load_direction(run, "auto", False, SEARCH)


@pytest.fixture(scope="module")
def native(run: Path) -> Translator:
    return Translator.load(run)


Ask = Callable[..., list[list[Translation]]]


@pytest.fixture(scope="module")
def ask(direction: Translator) -> Iterator[Ask]:
    service = Service(Models([direction]))
    service.start()
    yield lambda texts, **asked: asyncio.run(service.translate(texts, "de", "en", TextOptions(**asked), 60))
    service.close()


@pytest.mark.parametrize(
    ("directions", "matched", "refused"),
    [
        pytest.param(
            "de-pt pt_BR-zh",
            {"de-DE": "de", "de_AT": "de", "pt-BR": "pt_BR", "pt-PT": "pt", "zh-Hans": "zh", "zh-Hans-CN": "zh"},
            f"zh-Hant zh-TW en-US d  en-{'x' * 1000}",
            id="locales",
        ),
        pytest.param(
            "azj_Latn-zh_Hant sr_Latn-nb sr-uz",
            {"az": "azj_Latn", "zh-HK": "zh_Hant", "zh-TW": "zh_Hant", "sr@latin": "sr_Latn", "sr-Latn-RS": "sr_Latn",
             "sr-RS": "sr", "no": "nb", "uz-UZ": "uz"},
            "zh zh-CN az-Arab uz@cyrillic nn",
            id="scripts",
        ),
        pytest.param(
            "ja-zh ckb-ko de-pt_BR",
            {"jpn": "ja", "jpn_Jpan": "ja", "zho_Hans": "zh", "cmn": "zh", "zh-CN": "zh", "ckb_Arab": "ckb",
             "kor_Hang": "ko", "deu": "de", "DEU_Latn": "de", "por_Latn_BR": "pt_BR"},
            "en",
            id="three letters are asked",
        ),
        pytest.param(
            "jpn_Jpan-zho_Hant ckb_Arab-kor_Hang deu-eng_Latn",
            {"ja": "jpn_Jpan", "zh-TW": "zho_Hant", "zh_Hant": "zho_Hant", "ckb": "ckb_Arab", "ko": "kor_Hang",
             "de-CH": "deu", "en": "eng_Latn", "en_US": "eng_Latn"},
            "fr",
            id="three letters are known",
        ),
    ],
)  # fmt: skip
def test_code_matches_language_of_model(directions: str, matched: dict[str, str], refused: str) -> None:
    models = Models([MadeUp(*direction.split("-")) for direction in directions.split()])
    assert {code: models.language(code) for code in matched} == matched
    for code in refused.split(" "):
        with pytest.raises(Refusal) as error:
            models.language(code)
        assert error.value.status_code == 400


def test_codes_of_one_language_are_one_language_of_the_server() -> None:
    models = Models([MadeUp("amh", "eng"), MadeUp("ka", "en_Latn"), MadeUp("en", "fr")])
    assert models.languages == ["amh", "eng", "fr", "ka"]
    assert [models.language(code) for code in ("en", "eng", "en_Latn", "am")] == ["eng", "eng", "eng", "amh"]
    route = models.route("ka", "fr")
    assert route is not None and [direction.target for direction in route] == ["en_Latn", "fr"]
    two = [MadeUp("en", "pt_BR"), MadeUp("eng", "pt_br")]
    with pytest.raises(ConfigError):
        Models(two)
    two[1] = MadeUp("eng", "pt_br", run=two[0].run)  # two tags of one model
    assert Models(two).languages == ["en", "pt_BR"] and Models(two).route("en", "pt_BR") == [two[0]]


def test_service_translates_like_nmt_translate(run: Path, ask: Ask) -> None:
    translator = engine_for([run])
    expected = translator.translate(LINES, beam=3, max_length_ratio=1.0, split="always", n_best=2)
    assert [[each.text for each in found] for found in ask(LINES, n_best=2)] == expected
    [[joined]] = ask(["\n".join(LINES)])
    assert joined.text.split("\n") == [best for best, *_ in expected]


@pytest.mark.parametrize("split", ["long", "never"])
def test_auto_keeps_split_of_a_run(run: Path, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native = Translator.load(run)
    native = native.with_search([f"search.split={split}"])
    assert native.search_settings({"split": "auto"}).split == split
    monkeypatch.setattr(Translator, "load", lambda *_, **__: native)
    served = load_direction(run, "native", False, ["search.split=auto"])
    assert served.config.search.split == served.search_settings({"split": "auto"}).split == split


def test_search_setting_without_effect_is_refused_unless_it_is_inherited_or_the_default(run: Path) -> None:
    translator = Translator.load(run).with_search(["search.patience=2"])
    with pytest.raises(ConfigError, match=r"^request: search\.top_k: "):
        translator.search_settings({"top_k": 5}, "request")
    assert translator.search_settings({"top_k": 0, "temperature": 1.0}, "request") == translator.config.search
    drawn = translator.search_settings({"sample": True, "top_k": 5}, "request")
    assert (drawn.top_k, drawn.patience) == (5, 1.5)


def test_text_without_letters_is_copied(ask: Ask) -> None:
    [[numbers], [both]] = ask(["42\n\n12:30 ✓", f"{LINES[0]}\n[4]"], alignment=True)
    assert numbers.text == "42\n\n12:30 ✓" and numbers.alignment is not None
    assert [source for source, target in numbers.alignment if source == target] == [(0, 2), (4, 9), (10, 11)]
    assert both.text.endswith("\n[4]") and both.match is None


def test_minimum_bayes_risk_has_no_alternatives(run: Path) -> None:
    assert load_models([run], "native", False, SEARCH).alternatives == 2
    assert load_models([run], "native", False, (*SEARCH, "search.mbr=chrf")).alternatives == 0


def test_line_whose_prefix_is_too_long_is_named(direction: Translator) -> None:
    with pytest.raises(DataError, match=r"^line 2: "):
        direction.costs([Line(LINES[0]), Line(LINES[1], "ta " * 2000)], 0, Options(direction.config.search))


def test_pytorch_translates_lines_with_terms(ask: Ask, native: Translator) -> None:
    terms = {LINES[1].split()[0]: "xyzzy"}
    search = native.search_settings({"beam": 3, "max_length_ratio": 1.0})
    expected = native.translate_lines([Line(LINES[1], "ta", glossary=Glossary(terms))], search)
    [[found]] = ask([LINES[1]], terms=terms, prefix="ta")
    assert found.text == next(expected)[0].text and "xyzzy" in found.text and found.text.startswith("ta")


def test_pytorch_translates_lines_with_placeholders(
    direction: Translator, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = list[tuple[bool, list[int]]]()

    def search(is_engine: bool, real: Callable[..., Any], sentences: Sequence[Sentence], *arguments: Any) -> Any:
        windows.append((is_engine, [*dict.fromkeys(sentence.key // MAX_PARTS for sentence in sentences)]))
        return real(sentences, *arguments)

    alone = load_direction(run, "ctranslate2", False, SEARCH)
    for is_engine, engine in ((True, direction.searcher), (False, direction.fallback), (True, alone.searcher)):
        assert engine is not None
        monkeypatch.setattr(engine, "search", partial(search, is_engine, engine.search))

    def translate(direction: Translator, search: SearchConfig) -> list[str]:
        windows.clear()
        lines = [
            LINES[0],
            f"{LINES[2]} %s {{a}}",
            f"3 {LINES[1]}",
            "%s " * 30,
            f"{LINES[0]} {LONG_URL}",
        ]
        return [best.text for best, *_ in direction.translate_window(lines, Options(search))]

    kept = translate(direction, direction.config.search)
    assert windows == [(True, [0, 2, 3, 4]), (False, [1])]
    assert "%s" in kept[1] and "{a}" in kept[1]
    off = direction.search_settings({"protect": False})
    lost = translate(direction, off)
    assert "%s" not in lost[1] and [lost[number] for number in (0, 2, 4)] == [kept[number] for number in (0, 2, 4)]
    assert kept[3] == "%s " * 30, "nothing to translate"
    assert [is_engine for is_engine, _ in windows] == [True]
    for other, search in (
        (direction, direction.search_settings({"sample": True, "max_length_ratio": 0.0, "max_length_offset": 4})),
        (alone, direction.config.search),  # not supported by CTranslate2
    ):
        translate(other, search)
        assert [is_engine for is_engine, _ in windows] == [True]
    assert load_direction(run, "native", False, ("search.sample=true",)).config.search.sample


def test_long_url_is_named_and_other_placeholders_are_kept(ask: Ask) -> None:
    [[first, *others], [plain, *_]] = ask([f"{LINES[1]} {LONG_URL} {{a}}\n{LINES[0]} %s", LINES[0]], n_best=2)
    assert "{a}" in first.text and "%s" in first.text
    assert first.lost == (LONG_URL,) and plain.lost == () and not any(other.lost for other in others)


def test_alignment_does_not_change_translation(ask: Ask) -> None:
    text = f"{LINES[1]}\n\n{LINES[0]}"
    [[plain]], [[aligned]] = ask([text]), ask([text], alignment=True)
    assert (aligned.text, plain.alignment) == (plain.text, None)
    words, translated = (set(word_spans(each)) for each in (text, aligned.text))
    assert aligned.alignment and all(source in words and target in translated for source, target in aligned.alignment)
    assert any(source[0] > len(LINES[1]) for source, _ in aligned.alignment)


def test_invalid_request_raises(ask: Ask) -> None:
    many_pieces = {LINES[1].split()[0]: "x " * 9000}
    for text, asked, message in (("a", {"n_best": 4}, "the beam, 3"), (LINES[1], {"terms": many_pieces}, "piece")):
        with pytest.raises(Refusal, match=message) as refused:
            ask([text], **asked)
        assert refused.value.status_code == 400


def test_engine_is_chosen_by_capabilities(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = load_direction(run, "auto", False, ())
    assert "CTranslate2" in chosen.precision and chosen.native and chosen.aligns
    assert load_direction(run, "native", False, ()).precision == "float32"
    alone = load_direction(run, "ctranslate2", False, ())
    assert alone.native is None and not alone.aligns
    protected = ("search.protect=true",)  # not supported by CTranslate2
    assert load_direction(run, "auto", False, protected).precision == "float32"
    assert "translating with PyTorch: search.protect" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="protect"):
        load_direction(run, "ctranslate2", False, protected)
    exported = load_direction(run / "ctranslate2-float32", "auto", False, ())
    assert exported.precision == alone.precision and exported.native is None


def test_memory_of_server_is_used_unless_refused(run: Path, tmp_path: Path) -> None:
    memory = tmp_path / "a.tsv"
    memory.write_text(f"en\tde\nfrom memory\t{LINES[0]}\nPage 7\tSeite 7\n", encoding="utf-8")
    models = load_models([run], "native", False, SEARCH, tm=[str(memory)])
    service = Service(models)
    service.start()

    def ask(text: str, **asked: Any) -> Translation:
        [[found]] = asyncio.run(service.translate([text], "de", "en", TextOptions(**asked), 60))
        return found

    found = ask(LINES[0], alignment=True)
    assert (found.text, found.match, found.log_prob) == ("from memory", "exact", 0.0) and found.alignment is not None
    for rest, text, match in (("\r\n\r\nSeite 8", "\r\n\r\nPage 8", "adapted"), ("\n42", "\n42", "exact")):
        both = ask(f"{LINES[0]}{rest}")
        assert (both.text, both.match) == (f"from memory{text}", match)
    without = ask(LINES[0], tm=False)
    assert without.match is ask(f"{LINES[0]}\n{LINES[1]}").match is None and without.text not in ("", "from memory")
    service.close()


def test_invalid_startup_options_raise(run: Path, tmp_path: Path, direction: Translator) -> None:
    other, memory = replace(direction, run=Path("other")), tmp_path / "a.tmx"
    memory.write_text("<tmx><body><tu><tuv xml:lang='fr'><seg>a</seg></tuv></tu></body></tmx>", encoding="utf-8")
    for start, message in (
        (partial(Models, [direction, other]), "both translate de-en; specify only one"),
        (partial(load_models, [run, run.parent / "." / run.name], "native", False, ()), "are the same"),
        (partial(load_models, [run], "native", False, SEARCH, tm=[str(memory)]), "no segments from de into en"),
        (partial(load_direction, run, "native", True, ()), "int8"),
        (partial(load_direction, run, "native", False, ["training.seed=1"]), "only search"),
        (partial(load_direction, run, "native", False, [f"search.lm={tmp_path / 'none'}"]), "none"),
        (partial(load_direction, tmp_path / "none", "auto", False, ()), "none"),
    ):
        with pytest.raises(NmtError, match=message):
            start()
