"""Training with joined pairs of documents: preparation, updates, resuming, search with context and challenge sets."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from fitting import fit, start
from nmt.api import evaluate
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.data.corpus import Corpora, Corpus, Split
from nmt.errors import ConfigError, DataError
from nmt.evaluate.challenge import challenge_run, contrasts_json, of_contrastive, of_published
from nmt.evaluate.run import read_files
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import SIZES, Sizes
from nmt.prepare.prepare import append, prepare
from nmt.runs.model import open_saved
from nmt.search.settings import SearchConfig
from nmt.serve.bodies import Upload
from nmt.serve.documents import translated_file
from nmt.serve.models import load_models
from nmt.serve.service import Service, TextOptions
from nmt.text.ids import SEPARATOR
from nmt.training.objectives.translation import _in_context
from nmt.training.setup.objective import make_validator
from nmt.training.validate import Execution, HeldOutSplit
from nmt.translate.configured import source_lines
from nmt.translate.loading import Translator
from nmt.translate.search import NativeSearcher
from nmt.translate.types import Line, Options, Sentence
from tiny_corpus import tiny_settings, tiny_text
from tiny_run import make, tiny_config, tiny_model, tiny_tokenizer, write_run
from trained import assert_same_run, records, train_with_deaths

JOIN = {"modifiers": {"join": 0.5, "upper_case": 0.125}}
LINES_OF_DOCUMENT = 7
SHARDS = Sizes(shard_pairs=90, part_pairs=70)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def prepared(config: Config, data: Path, sizes: Sizes = SIZES) -> Corpus:
    prepare(config, data, echo=lambda _: None, sizes=sizes)
    return Corpus.open(DataDir(data))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of seven lines, whose last line is the same in all of them."""
    folder = tmp_path_factory.mktemp("join-text")
    tiny_text(folder, n_train=240)
    for language, last in (("aa", "mali bore"), ("bb", "erob ilam")):
        path = folder / f"train.{language}"
        documents = zip(*[iter(lines_of(path))] * (LINES_OF_DOCUMENT - 1), strict=True)
        path.write_text("\n".join("\n".join([*lines, last, ""]) for lines in documents) + "\n", encoding="utf-8")
    return folder


def config_of(text: Path, **training: object) -> Config:
    return tiny_settings(text, data={"documents": True}, training={**JOIN, "max_steps": 6, **training})


@pytest.fixture(scope="module")
def data(text: Path) -> Path:
    prepared(config_of(text), text / "data")
    return text / "data"


@pytest.fixture(scope="module")
def run(text: Path, data: Path) -> Path:
    fit(config_of(text), data, text / "run")
    return text / "run"


@pytest.fixture(scope="module")
def lively(text: Path, data: Path) -> Path:
    """A run of an untrained model, whose translations differ between lines."""
    config, tokenizer = config_of(text), Corpus.open(DataDir(data)).tokenizers["aa"]
    return write_run(text / "lively", config, tokenizer, tiny_model(config, tokenizer))


@pytest.fixture(scope="module")
def translator(lively: Path) -> Translator:
    return Translator.load(lively)


def follows_of(corpus: Corpus, split: Split, text: Path) -> tuple[list[str], list[int]]:
    """Return the lines of a split, and whether each follows the one before it, as it does in the text."""
    lines, follows = split.text("aa"), corpus.follows(split).tolist()
    assert not follows[0] and len(follows) == len(lines)
    after = followers(text)
    assert all(lines[i] in after[lines[i - 1]] for i, is_next in enumerate(follows) if is_next)
    return lines, follows


def followers(text: Path) -> dict[str, set[str]]:
    lines = (text / "train.aa").read_text(encoding="utf-8").split("\n")
    return {line: {after for before, after in pairwise(lines) if before == line} for line in lines}


@pytest.mark.parametrize("sizes", [SIZES, SHARDS], ids=["one file", "shards"])
def test_prepare_records_which_pair_follows_another(text: Path, tmp_path: Path, sizes: Sizes) -> None:
    corpus = prepared(config_of(text), tmp_path / "data", sizes)
    assert len(corpus.train_splits) == (1 if sizes is SIZES else 3)
    follows = [is_next for split in corpus.train_splits for is_next in follows_of(corpus, split, text)[1]]
    assert len(follows) > 270 and sum(follows) > 0.75 * len(follows)  # equal last lines are no duplicates
    assert corpus.follows(corpus.split("test")).tolist() == [0, *[1] * 9]


def test_whole_documents_are_held_out(text: Path, tmp_path: Path) -> None:
    config = tiny_settings(text, data={"documents": True, "valid": 20})
    corpus = prepared(config, tmp_path / "data")
    lines, follows = follows_of(corpus, corpus.split("valid"), text)
    ends = [*(row for row, is_next in enumerate(follows) if not is_next), len(lines)]
    assert len(lines) >= 20 and len(ends) > 3
    assert [end - start for start, end in pairwise(ends)] == [LINES_OF_DOCUMENT] * (len(ends) - 1), "each is whole"
    sources = source_lines(corpus, config.data, reads_similar=False, split="valid")
    assert [line.is_first for line in sources] == [not is_next for is_next in follows]


def test_blocks_of_long_document_do_not_follow_each_other_in_shards(tmp_path: Path) -> None:
    tiny_text(tmp_path, n_train=300)
    corpus = prepared(config_of(tmp_path), tmp_path / "data", SHARDS)
    for split in corpus.train_splits:
        follows_of(corpus, split, tmp_path)


@pytest.mark.parametrize(
    ("data", "modifiers", "problem"),
    [
        ({}, {"join": 0.5}, r"join: needs data\.documents"),
        ({"documents": True, "fuzzy_threshold": 0.7}, {"join": 0.5, "fuzzy": 0.5}, "fuzzy and join cannot be combined"),
    ],
)
def test_impossible_joining_is_refused(data: dict[str, object], modifiers: object, problem: str, text: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        tiny_settings(text, data=data, training={"modifiers": modifiers})


def test_settings_of_documents_are_part_of_recipe(text: Path, tmp_path: Path) -> None:
    prepared(tiny_settings(text), tmp_path / "data")
    assert not [*(tmp_path / "data").glob("*.follows.npy")]
    with pytest.raises(DataError, match=r"set data\.documents: true"):
        fit(config_of(text), tmp_path / "data", tmp_path / "run")
    prepared(config_of(text), tmp_path / "ordered")
    follows = tmp_path / "ordered" / "train.follows.npy"
    follows.write_bytes(follows.read_bytes()[:-1] + b"\x07")
    with pytest.raises(DataError, match="damaged"):
        fit(config_of(text), tmp_path / "ordered", tmp_path / "run")


@pytest.mark.parametrize("is_sharded", [False, True])
@pytest.mark.parametrize("directions", [[], ["aa-bb", "bb-aa"]], ids=["one direction", "two"])
def test_pairs_are_joined_with_following_ones(text, tmp_path, is_sharded, directions) -> None:
    valid = {"files": {"aa": "dev.aa", "bb": "dev.bb"}}
    settings = {"documents": True, "max_pieces": 40, "directions": directions, "valid": valid}
    config, data = tiny_settings(text, data=settings, training=JOIN), tmp_path / "data"
    prepare(config, data, echo=lambda _: None, sizes=SHARDS if is_sharded else SIZES)
    session = start(config, data, tmp_path / "run", resume=False)
    tokenizer, after = Corpora.open(DataDir(data), config.data).tokenizers["aa"], followers(text)
    rows, n_joined = np.arange(len(session.pairs)), [0, 0, 0, 0]
    batch = session.training_objective.changed(session.pairs, rows, 0).batch(rows)
    for src, tgt in zip(unpadded(batch.src), unpadded(batch.tgt_out), strict=True):
        assert max(len(src), len(tgt)) <= 40 + bool(directions)
        sides = [np.split(ids, np.flatnonzero(ids == SEPARATOR)) for ids in (src, tgt)]
        first, second = ([tokenizer.decode(part.tolist()) for part in side] for side in sides)
        n_joined[len(first) - 1] += 1
        assert [line[::-1] for line in first] == second
        forward = first if first[0] in after else second
        assert all(line in after[before] for before, line in pairwise(forward))
    assert all(n_joined) and sum(n_joined[1:]) > 0.25 * len(rows)


def test_log_shows_joined_pair(run: Path) -> None:
    [example] = [each for each in records(run) if each.get("modifier") == "join"]
    src, tgt = (example[side].split(" <separator> ") for side in ("src", "tgt"))
    assert [line[::-1] for line in src] == tgt and len(src) > 2


def test_resumed_run_with_joined_pairs_equals_uninterrupted_run(text, data, run, tmp_path, monkeypatch) -> None:
    train_with_deaths(config_of(text), data, tmp_path / "parts", monkeypatch, [2, 5])
    assert_same_run(run, tmp_path / "parts")


def test_append_continues_order_of_documents(text: Path, tmp_path: Path) -> None:
    prepared(config_of(text), tmp_path / "data", SHARDS)
    files = {side: str(tmp_path / f"new.{side}") for side in ("aa", "bb")}
    new = [f"{line.upper()} x" for line in lines_of(text / "test.aa")]
    Path(files["aa"]).write_text("".join(f"{line}\n" for line in new), encoding="utf-8")
    Path(files["bb"]).write_text("".join(f"{line[::-1]}\n" for line in new), encoding="utf-8")
    train = [{"files": {"aa": "train.aa", "bb": "train.bb"}}, {"files": files}]
    append(tiny_settings(text, data={"documents": True, "train": train}), tmp_path / "data", echo=lambda _: None)
    corpus = Corpus.open(DataDir(tmp_path / "data"))
    follows = [corpus.follows(split).tolist() for split in corpus.train_splits if split.name.startswith("train.1")]
    assert follows == [[0, *[1] * 9]]


def test_context_changes_translations_and_ends_with_document(
    text: Path, data: Path, lively: Path, translator: Translator
) -> None:
    lines = lines_of(text / "test.aa")

    def translated(lines: list[str | Line], **settings: object) -> list[str]:
        return [best.text for best, *_ in translator.translate_lines(lines, translator.search_settings(settings))]

    alone, within = translated(lines), translated(lines, context=2)
    assert alone != within and alone[0] == within[0]
    assert translated([line for each in lines for line in (each, "")], context=2)[::2] == alone
    assert translated([Line(line, is_first=True) for line in lines], context=2) == alone
    assert translated([*lines[:5], "", *lines[5:]], context=2)[:5] == within[:5]
    joined = " ".join(f"{line.capitalize()}." for line in lines[:3])
    [[joint]] = translator.translate_lines([joined], translator.search_settings({}))
    assert len(joint.parts) == 3 and joint.log_prob < 0 and "reserved" not in joint.text
    assert list(evaluate(lively, data=data, search={"context": 2}).translations) == within


def test_placeholders_are_kept_in_context(text: Path, translator: Translator) -> None:
    lines = lines_of(text / "test.aa")[:3]
    options = Options(translator.search_settings({"context": 2, "protect": "placeholders"}))

    def translated(lines: list[str]) -> list[str]:
        return [best.text for best, *_ in translator.translate_window(lines, options)]

    with_placeholder = translated([*lines, f"%s {lines[0]}"])
    assert with_placeholder[:3] == translated(lines) != [translated([line])[0] for line in lines]
    assert "%s" in with_placeholder[3]
    many = translated(["%s " * 20, f"{lines[0]} %d"])
    assert many[0].count("%s") == 20 and "%d" in many[1]  # the first line has nothing to translate


def test_engines_agree_on_lines_in_context(text: Path, lively: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    from nmt.share.engine import load_ctranslate2
    from nmt.share.export import ExportOptions, export

    engine = load_ctranslate2(export(ExportOptions(lively), tmp_path / "ct2", "ctranslate2").path)
    lines = [". ".join(pair) for pair in zip(*[iter(lines_of(text / "test.aa"))] * 2, strict=True)]
    native = Translator.load(lively, precision="float32")
    assert engine.translate(lines, context=2, beam=1) == native.translate(lines, context=2, beam=1)


def test_exported_model_may_write_separators(lively: Path, translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from nmt.share.export import ExportOptions, export

    export(ExportOptions(lively), tmp_path / "hf", "transformers")
    suppressed = json.loads((tmp_path / "hf" / "generation_config.json").read_text())["suppress_tokens"]
    never = translator.tokenizers["bb"].never_written()
    assert SEPARATOR in never and suppressed == [i for i in never if i != SEPARATOR]


def test_server_translates_texts_in_context(
    text: Path, lively: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.serve.worker.LEAST_COST", 1)  # other requests would be divided into lines
    monkeypatch.setattr("nmt.serve.worker.ROUND_SECONDS", 0.0)
    lines = lines_of(text / "test.aa")
    whole = "\n".join([*lines[:4], "", *lines[2:6]])
    models = load_models([lively], "native", False, ["search.context=2"])
    [search] = [direction.config.search for direction in models.directions.values()]
    assert search.context == 2
    service = Service(models)

    def alone(text: str) -> str:
        return "\n".join(best.text for best, *_ in translator.translate_lines(text.split("\n"), search))

    def translated(*texts: str, **asked: bool) -> list[str]:
        answers = asyncio.run(service.translate(texts, "aa", "bb", TextOptions(**asked), 60))  # type: ignore[arg-type]
        return [best.text for best, *_ in answers]

    service.start()
    with closing(service):
        assert translated(whole, whole) == [alone(whole)] * 2 == translated(whole, whole)
        assert translated(*lines[:4]) == [alone(line) for line in lines[:4]]
        parts = translated(*lines[:4], is_document=True)
        assert "\n".join(parts) == alone("\n".join(lines[:4])) and parts[1:] != [alone(line) for line in lines[1:4]]
        page = Upload("a.html", "".join(f"<p>{line}</p>" for line in lines[:4]).encode())
        result = asyncio.run(translated_file(service, page, ("aa", "bb"), TextOptions(), lambda _: None))[0].decode()
        assert re.findall("<p>(.*?)</p>", result) == parts
        assert not len(service._cache)


def test_context_of_validation_ends_with_document() -> None:
    lines = [Line("a", is_first=True), Line("b"), Line("c", is_first=True), Line("d"), Line("e")]
    found = _in_context(lines, [*"ABCDE"], 1)
    assert [line.before for line in found] == [(), (("a", "A"),), (), (("c", "C"),), (("d", "D"),)]


@pytest.mark.parametrize(("n_joined", "joins", "most"), [(1, True, 0), (2, True, 1), (2, False, 0)])
def test_translation_has_no_more_separators_than_its_sentences(
    data: Path, lively: Path, n_joined: int, joins: bool, most: int
) -> None:
    model, tokenizer = open_saved(lively).transformer(), Corpus.open(DataDir(data)).tokenizers["aa"]
    with torch.no_grad():
        weight = model.output_weight
        weight[SEPARATOR] = 3 * weight.mean(0) + weight[tokenizer.encode("mali")[0]]
        model.decoder.norm.bias.copy_(5 * weight[SEPARATOR])  # likes separators
    searcher = NativeSearcher([model], tokenizer, torch.device("cpu"), "float32", joins)
    asked = [Sentence("", "", tokenizer.encode("mali bore"), 0, 8, n_joined=n_joined)]
    [[best]] = searcher.search_batch(asked, SearchConfig(beam=2), 1)
    assert list(best.ids).count(SEPARATOR) == most


@pytest.mark.parametrize("context", [0, 2])
def test_validation_is_in_context_of_references(data: Path, lively: Path, translator: Translator, context: int) -> None:
    search = translator.config.search.model_copy(update={"context": context})
    config = translator.config.model_copy(update={"search": search})
    corpus, model = Corpus.open(DataDir(data)), open_saved(lively).transformer()
    held_out, execution = HeldOutSplit(corpus, "test"), Execution(torch.device("cpu"), "float32", 1000)
    validation = make_validator(config, corpus.tokenizers, held_out, execution).scored(model, lambda: None)
    n, test = context or 1, corpus.split("test")
    pairs = list(zip(test.text("aa"), test.text("bb"), strict=True))  # one document
    before = [tuple(pairs[max(0, i - n) : i]) for i in range(len(pairs))]
    lines = [Line(pair[0], is_first=True, before=given) for pair, given in zip(pairs, before, strict=True)]
    expected, alone = (
        [best.text for best, *_ in translator.translate_lines(each, translator.search_settings({"context": n}))]
        for each in (lines, [Line(line.text, is_first=True) for line in lines])
    )
    assert list(validation.translations) == expected != alone


def test_model_without_joined_pairs_has_no_context() -> None:
    with pytest.raises(ConfigError, match=r"search\.context"):
        make(tiny_tokenizer(), tiny_config()).translate(["a"], context=1)


def test_challenge_scores_lines_after_lines_before_them(text: Path, run: Path, tmp_path: Path) -> None:
    translator = Translator.load(run)
    src, tgt = (lines_of(text / f"test.{side}") for side in ("aa", "bb"))
    files = [tmp_path / name for name in ("s.aa", "s.bb", "c.bb")]
    for path, lines in zip(files, (src, tgt, [line[1:] for line in tgt]), strict=True):
        path.write_text("\n".join([*lines[:4], "", *lines[4:6]]) + "\n", encoding="utf-8")
    given = read_files(files[0], [files[1]], translator.config.data.sides)
    plain, within = (challenge_run(translator, of_contrastive(given, files[2], n)).outcomes for n in (0, 2))
    before = [each.contrast.context for each in within]
    pairs = list(zip(src, tgt, strict=True))
    assert before == [(), (pairs[0],), (*pairs[:2],), (*pairs[1:3],), (), (pairs[4],)]
    log_probs = [(one.reference.log_prob, other.reference.log_prob) for one, other in zip(plain, within, strict=True)]
    same = [one == pytest.approx(other, abs=1e-4) for one, other in log_probs]
    assert same == [True, False, False, False, True, False]
    (tmp_path / "pairs.json").write_text(contrasts_json(within), encoding="utf-8")
    published = of_published(tmp_path / "pairs.json")
    assert [each.context for each in published.contrasts] == before and published.context == 2
    assert [each.reference.n_pieces for each in plain] == [each.reference.n_pieces for each in within]

    def joined(lines: list[str], language: str) -> list[int]:
        return [i for line in lines for i in (*translator.tokenizers[language].encode(line), SEPARATOR)][:-1]

    # the sum of the parts is the whole
    asked = [(joined(src[:n], "aa"), joined(tgt[:n], "bb")) for n in (2, 1)]
    whole, first = translator.forced_decoder().log_probs(asked)
    assert sum(whole[len(first) :]) == pytest.approx(within[1].reference.log_prob, abs=1e-4)


def test_contrapro_is_read_with_lines_of_its_documents(tmp_path: Path) -> None:
    (tmp_path / "docs" / "1999").mkdir(parents=True)
    for language, lines in (("en", "A box.\nBig.\nIt is red.\n"), ("de", "Eine Kiste.\nGroß.\nSie ist rot.\n")):
        (tmp_path / "docs" / "1999" / f"7.{language}").write_text(lines, encoding="utf-8")
    entry = {
        "src segment": "It is red.", "ref segment": "Sie ist rot.", "errors": [{"contrastive": "Es ist rot."}],
        "document id": "7.de", "segment id": 3, "src pronoun": "it", "ref pronoun": "sie",
    }  # fmt: skip
    path = tmp_path / "contrapro.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    [contrast] = of_published(path, tmp_path / "docs", ("en", "de"), 1).contrasts
    assert contrast.context == (("Big.", "Groß."),) and contrast.kind == "it:sie"
    for wrong in ({"document id": "8.de"}, {"segment id": 2}, {"segment id": 9}):
        path.write_text(json.dumps([entry | wrong]), encoding="utf-8")
        with pytest.raises(DataError):
            of_published(path, tmp_path / "docs", ("en", "de"), 1)


def unit(number: int, name: str) -> str:
    prop = f'<prop type="file">{name}</prop>' if name else ""
    return f'<tu>{prop}<tuv xml:lang="aa"><seg>a{number}</seg></tuv><tuv xml:lang="bb"><seg>b</seg></tuv></tu>'


TMX = '<tmx version="1.4"><header/><body>{}</body></tmx>'
TRANS_UNITS = "".join(f'<trans-unit id="{i}"><source>s{i}</source><target>t</target></trans-unit>' for i in range(2))
XLIFF_FILE = (
    '<file original="{}" source-language="aa" target-language="bb" datatype="plaintext"><body>'
    + TRANS_UNITS
    + "</body></file>"
)
TWO_VERSIONS = unit(0, "").replace("</tu>", '<tuv xml:lang="bb"><seg>x</seg></tuv></tu>') + unit(1, "")
DOCUMENTS = {
    "a.tmx": (TMX.format("".join(map(unit, range(4), "xxyx"))), [False, True, True]),
    "b.xlf": (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f"{''.join(map(XLIFF_FILE.format, 'xy'))}</xliff>",
        [False, True, False],
    ),
    "c.csv": ("aa,bb,doc\n" + "".join(f"a{i},b,{name}\n" for i, name in enumerate("xxyx")), [False, True, True]),
    "d.jsonl": (
        "".join(f'{{"aa": "a{i}", "bb": "b", "doc": "{name}"}}\n' for i, name in enumerate("xxyx")),
        [False, True, True],
    ),
    "e.feather": ("", [False, True, True]),
    "f.tsv": ("aa\tbb\na\tb\na\tb\n\na\tb\n", [False, True]),
    "g.tmx": (TMX.format(TWO_VERSIONS), [True, False]),
}
"""Files, and whether each pair but the first begins a document."""


def test_documents_of_files_are_counted(tmp_path: Path) -> None:
    from pyarrow import feather, table

    from nmt.data.sources import TrainPath
    from nmt.prepare.pairs import Units
    from nmt.prepare.sources import read_part

    units, last = Units(), None
    for name, (content, starts) in DOCUMENTS.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        if name == "e.feather":
            feather.write_feather(table({"aa": ["a"] * 4, "bb": ["b"] * 4, "doc": [*"xxyx"]}), tmp_path / name)
        part = TrainPath(path=name, name="x", document="doc" if name[0] in "cde" else None)
        documents = [pair.document for pair in read_part(part, ("aa", "bb"), tmp_path, units)]
        assert [one != other for one, other in pairwise(documents)] == starts, name
        assert documents[0] != last, "of another file"
        last = documents[-1]
