"""One model with several directions: configs, prepared text, training, translation, scores, exports and the server."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command import Command, Result
from fitting import fit, start
from kept_run import differences, kept, quicken
from nmt import api
from nmt.config import Config
from nmt.config.load import changed_config, dump_config, load_config
from nmt.data import mixing
from nmt.data.corpus import Corpora, Corpus
from nmt.data.manifest import read_contents
from nmt.errors import ConfigError, DataError
from nmt.evaluate.run import _off_target
from nmt.languages.directions import ANY
from nmt.layout import DataDir, RunDir
from nmt.prepare.pipeline.encode import evenly
from nmt.prepare.prepare import append, dry_run, prepare
from nmt.recipes.teachers import run_config
from nmt.runs.data import open_corpus
from nmt.runs.info import read_info, read_scores, read_selected
from nmt.runs.model import ModelRef, open_saved
from nmt.runs.state import saved_steps
from nmt.serve.models import load_models
from nmt.serve.service import Service
from nmt.share.export import ExportOptions, engine_for, export, export_argos
from nmt.text.language import share_of_others
from nmt.text.vocabularies import read_tags
from nmt.training import saving
from nmt.training.validate import DirectionsValidator
from nmt.translate.loading import Translator
from nmt.translate.types import Line, Options
from served import serving
from tiny_corpus import tiny_settings, tiny_text
from trained import records, train_with_deaths

LANGUAGES = ("aa", "bb", "cc")
DIRECTIONS = ["aa-bb", "bb-aa", "cc-aa", "aa-cc"]
EVERY = {language: f"train.{language}" for language in LANGUAGES}


def settings(folder: Path, directions: object = DIRECTIONS, **changes: object) -> Config:
    """Return the settings of a corpus in three languages, and one in two of them."""
    training, search = changes.pop("training", {}), changes.pop("search", {})
    held_out = {name: {"files": {each: f"{name}.{each}" for each in LANGUAGES}} for name in ("dev", "test")}
    data = {
        "direction": "", "directions": directions, "languages": list(LANGUAGES), "valid": held_out["dev"],
        "train": [{"files": EVERY}, {"files": {"aa": "more.aa", "cc": "more.cc"}}], "test": {"test": held_out["test"]},
        **changes,
    }  # fmt: skip
    return tiny_settings(folder, data=data, training=training, search=search)  # type: ignore[arg-type]


def write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def prepared(config: Config, folder: Path, tokenizer_from: Path | None = None) -> list[str]:
    """Prepare text, and return the messages."""
    said = list[str]()
    prepare(config, folder, tokenizer_from, echo=said.append)
    return said


def mix_of(config: Config, data: Path) -> mixing.Mix:
    manifests = {name: each.manifest for name, each in Corpora.open(DataDir(data), config.data).by_direction.items()}
    return mixing.make_mix(config.data, config.training.stages, manifests)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In cc, the words of aa are in capitals; `more` has other sentences."""
    folder = tmp_path_factory.mktemp("directions")
    tiny_text(folder, 120)
    write(folder / "more.aa", [f"so {line}" for line in lines_of(folder / "train.aa")[:30]])
    for name in ("train", "dev", "test", "more"):
        write(folder / f"{name}.cc", [line.upper() for line in lines_of(folder / f"{name}.aa")])
    return folder


@pytest.fixture(scope="module")
def data(text: Path) -> Path:
    prepared(settings(text), text / "data")
    return text / "data"


@pytest.fixture(scope="module")
def run(text: Path, data: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        fit(settings(text), data, text / "run")
    return text / "run"


# --- configs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directions", "expected"),
    [
        ("all", ["aa-bb", "aa-cc", "bb-aa", "bb-cc", "cc-aa", "cc-bb"]),
        ({"to": "aa"}, ["bb-aa", "cc-aa"]),
        ({"from": "cc"}, ["cc-aa", "cc-bb"]),
    ],
)
def test_words_stand_for_directions(directions: object, expected: list[str]) -> None:
    config = settings(Path("text"), directions, train=[{"files": EVERY}])
    assert config.data.directions == expected and config.data.direction == expected[0]
    assert changed_config(config, []) == config
    view = config.data.towards(expected[-1])
    assert view.sides == tuple(expected[-1].split("-")) and view.directions == expected[-1:]
    assert view.train[0].named_languages == sorted(view.sides)


def test_sources_are_restricted_to_languages() -> None:
    train = [{"opus": "Some/v1"}, {"path": "more.tmx", "languages": ["aa", "bb"]}]
    config = settings(Path("text"), train=train)
    assert changed_config(config, []) == config
    for pair, labels in (("aa-bb", ["Some-v1", "more.tmx"]), ("aa-cc", ["Some-v1"])):
        assert [source.label for source in config.data.towards(pair).train] == labels
    # other languages of a source do not change the data of a pair
    other = settings(Path("text"), train=[train[0], {**train[1], "languages": list(LANGUAGES)}])
    assert other.data.towards("aa-bb") == config.data.towards("aa-bb")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"directions": ["aa-bb", "aa-bb"]}, "directions: names aa-bb twice"),
        ({"languages": ["aa", "aa", "bb", "cc"]}, "languages: names aa twice"),
        ({"languages": ["aa", "bb"]}, "directions: cc is not one of data.languages"),
        ({"directions": []}, "data.directions: "),
        ({"directions": ["aa-aa", "aa-bb"]}, "data.directions: .*aa-aa"),
        ({"languages": [], "directions": "all"}, "languages: must list"),
        ({"directions": {"to": "xx"}}, "directions: must be a list"),
        ({"directions": "aa-bb"}, "directions: "),
        ({"directions": ["aa-bb", "bb-cc"], "train": [{"files": {"aa": "a", "bb": "b"}}]}, "no corpus has bb and cc"),
        ({"valid": {"files": {"aa": "a", "bb": "b"}}}, "valid: has aa and bb"),
        ({"train": [{"files": {"aa": "a"}}]}, "train.0.files: must name two or more"),
        ({"train": [{"files": {"aa": "a", "xx": "b"}}]}, "train.0.files: .*xx"),
        ({"train": [{"opus": "Some/v1", "languages": ["aa", "xx"]}]}, "train.0.languages: .*xx"),
        ({"train": [{"opus": "Some/v1", "languages": ["aa", "bb"]}]}, "no corpus has aa and cc"),
        ({"train": [{"files": EVERY, "sha256": {"aa": "0" * 64, "bb": "0" * 64}}]}, "train.0.sha256: .*cc"),
        ({"train": [{"path": "x", "languages": [*LANGUAGES], "columns": {"aa": "A", "cc": "C"}}]}, "0.columns: .*bb"),
        ({"direction": "bb-cc"}, "direction: bb-cc is not one of"),
        ({"directions": ["aa-label"], "languages": []}, "labels"),
        ({"train": [{"files": EVERY, "tags": {"to": "x"}}]}, "target languages"),
        ({"mono": {"aa": [{"files": {"aa": "a"}}]}}, "mono: not available"),
        ({"directions": ["aa-bb"], "languages": []}, "train.1: .*aa and cc"),
        ({"directions": [], "direction": "aa-bb"}, "languages: needs data.directions"),
        ({"training": {"objective": "denoising"}}, "data.directions: .*denoising"),
        ({"training": {"both_directions": True}}, "training.both_directions: .*data.directions"),
    ],
)
def test_unusable_directions_are_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        settings(Path("text"), **changes)
    assert len(raised.value.problems) == 1 or problem == "labels", "one mistake is one problem"


def test_chosen_direction_is_valid_without_the_corpora_of_others() -> None:
    config = settings(Path("text"), training={"stages": [{"weights": {"more.aa": 1}}]})
    for to, source, stages in (("bb", "aa", []), ("cc", "bb", []), ("cc", "aa", config.training.stages)):
        chosen = changed_config(config.choose_languages(to, source), ["search.beam=1"])
        assert (chosen.data.direction, chosen.training.stages) == (f"{source}-{to}", stages)
    one_way = settings(Path("text"), train=[{"files": EVERY}, {"files": EVERY, "to": "cc", "name": "back"}])
    for to, source, n in (("cc", "aa", 2), ("aa", "cc", 1)):
        assert len(changed_config(one_way.choose_languages(to, source), ["search.beam=1"]).data.train) == n
    assert config.choose_languages("aa", ANY).data.direction == "bb-aa"
    assert settings(Path("text"), direction="cc-aa").choose_languages("aa", ANY).data.direction == "cc-aa"
    with pytest.raises(ConfigError, match="--from: bb, cc"):
        config.choose_languages("aa")
    imported = tiny_settings(Path("text"))
    assert imported.choose_languages("bb") == imported
    assert imported.choose_languages("bb", None, ["bb"]).search.to == "bb"


# --- prepared text --------------------------------------------------------------------------------


def test_pairs_share_a_tokenizer_and_no_held_out_line(text: Path, data: Path, tmp_path: Path) -> None:
    write(text / "leak.aa", ["mali bore", *lines_of(text / "dev.aa")[:2]])
    write(text / "leak.cc", ["MALI BORE", "LAMI ROBE", "ROBE"])
    sources = [{"files": EVERY}, {"files": {"aa": "leak.aa", "cc": "leak.cc"}}]
    prepared(settings(text, train=sources, valid=5), tmp_path / "data")
    corpora = Corpora.open(DataDir(tmp_path / "data"), settings(text).data)
    first, second = corpora.distinct
    assert [first.languages, second.languages] == [("aa", "bb"), ("aa", "cc")]
    assert first.tokenizers.fingerprint == second.tokenizers.fingerprint
    # the same lines of the corpus in three languages
    assert first.split("valid").text("aa") == second.split("valid").text("aa")
    splits = [corpus.split(name) for corpus in corpora.distinct for name in ("valid", "test")]
    held_out = {line for split in splits for line in split.text("aa")}
    for corpus in corpora.distinct:
        assert not held_out & {*corpus.split("train").text("aa")}
        assert corpus.tokenizers["aa"].tags == corpora.tokenizers["aa"].tags != {}
    with pytest.raises(DataError, match="aa-bb"):
        Corpus.open(DataDir(data))
    with pytest.raises(DataError, match="bb-cc"):
        Corpora.open(DataDir(data), settings(text, ["bb-cc", "aa-bb"]).data)


def test_dry_run_drops_what_is_held_out_for_other_pairs(text: Path, tmp_path: Path) -> None:
    said = list[str]()
    write(tmp_path / "two.aa", lines_of(text / "more.aa")[:3])
    write(tmp_path / "two.bb", ["bore", "robe", "lami"])
    two = {name: str(tmp_path / f"two.{name}") for name in ("aa", "bb")}
    dry_run(settings(text, test={"two": {"files": two}}), echo=said.append)
    [of_corpus] = [line for line in said if "more.aa  " in line]
    assert of_corpus.split()[2:5] == ["30", "27", "3"] and of_corpus.endswith("in a dev or test set 3")


@pytest.mark.parametrize("act", [prepared, lambda config, _: dry_run(config, echo=str)], ids=["prepare", "dry run"])
def test_problem_of_a_pair_names_it(act: Callable[[Config, Path], object], text: Path, tmp_path: Path) -> None:
    write(tmp_path / "none.cc", [""] * 10)
    held_out = {"aa": str(text / "dev.aa"), "bb": str(text / "dev.bb"), "cc": str(tmp_path / "none.cc")}
    with pytest.raises(DataError, match=r"^aa-cc: "):
        act(settings(text, valid={"files": held_out}), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_prepared_pairs_are_kept_until_a_file_changes(text: Path, tmp_path: Path) -> None:
    for path in text.glob("*.??"):
        shutil.copy(path, tmp_path)
    config, data = settings(tmp_path), tmp_path / "data"
    prepared(config, data)
    before = read_contents(DataDir(data))
    said = prepared(settings(tmp_path, ["aa-cc", "bb-aa"], direction_temperature=5.0), data)
    assert "up to date" in said[0] and all("ISO 639" in line for line in said[1:])
    write(tmp_path / "more.cc", [*lines_of(tmp_path / "more.cc")[:-1], "NEW"])
    assert "cc has changed" in prepared(config, data)[0]
    assert read_contents(DataDir(data)).fingerprint != before.fingerprint
    prepared(config, tmp_path / "again", tokenizer_from=data)
    with pytest.raises(DataError, match="would be prepared again"):
        prepared(settings(tmp_path, ["aa-bb"]), data)


def test_append_to_one_of_several_pairs_is_rejected(text: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data / "aa-bb")
    for directory in (data, data / "aa-bb", tmp_path / "link"):
        with pytest.raises(DataError, match="several pairs"):
            append(settings(text), directory)


def test_one_pair_is_prepared_as_without_directions(text: Path, tmp_path: Path) -> None:
    several = {"directions": ["aa-bb", "bb-aa"], "direction": "", "train": [{"files": EVERY}]}
    contents = []
    for name, data in (("several", several), ("one", {"train": [{"files": {"aa": "train.aa", "bb": "train.bb"}}]})):
        folder = tmp_path / name
        prepared(tiny_settings(text, data=data), folder)
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("report")]
        contents.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: write(path, ["MALI"])], ids=["missing", "shorter"])
def test_damaged_file_of_several_is_refused(damage: Callable[[Path], None], text: Path, tmp_path: Path) -> None:
    for path in text.glob("*.??"):
        shutil.copy(path, tmp_path)
    damage(tmp_path / "train.cc")
    with pytest.raises(DataError, match=r"train\.cc"):
        prepared(settings(tmp_path), tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("n", "wanted"), [(7, 3), (7, 7), (7, 16), (1, 4)])
def test_lines_are_sampled_evenly(n: int, wanted: int) -> None:
    counts = Counter(evenly(lambda: map(str, range(n)), n, wanted))
    assert counts.total() == wanted and max(counts.values()) - min([*counts.values(), wanted // n]) <= 1


# --- training -------------------------------------------------------------------------------------


def test_target_language_precedes_every_source(text: Path, tmp_path: Path) -> None:
    train = [{"files": EVERY, "tags": {"kind": "x"}}, {"files": {"aa": "more.aa", "cc": "more.cc"}}]
    config = settings(text, train=train, training={"tag_dropout": 0.5})
    prepared(config, tmp_path / "data")
    session = start(config, tmp_path / "data", tmp_path / "run", resume=False)
    corpora = Corpora.open(DataDir(tmp_path / "data"), config.data)
    tags, starts = corpora.tokenizers["aa"].tags, corpora.starts
    assert [*tags] == ["kind=x", "to=aa", "to=bb", "to=cc"] and corpora.tokenizers["aa"].first_tag == min(tags.values())
    n_kinds = Counter[bool]()
    for update in session.updates():
        rows = session.changed_update(update).rows
        batch, corpus_rows = session.pairs.batch(rows), session.pairs.corpus_rows(rows)
        for src, row in zip(batch.src.tolist(), corpus_rows.tolist(), strict=True):
            direction = [*corpora.by_direction][int(np.searchsorted(starts, row, side="right")) - 1]
            assert src[0] == tags[f"to={direction[3:]}"] and src[1:].count(tags["kind=x"]) == (src[1] == tags["kind=x"])
            n_kinds[src[1] == tags["kind=x"]] += 1
    assert 0.3 < n_kinds[True] / n_kinds.total() < 0.6  # `more` has no kind


def test_temperature_determines_shares_of_directions(text: Path, data: Path) -> None:
    config = settings(text, direction_temperature=2.0)
    mix, corpora = mix_of(config, data), Corpora.open(DataDir(data), config.data).by_direction
    sizes = [corpus.manifest.splits["train"].pairs for corpus in corpora.values()]
    assert mix.n_pairs == sum(sizes) and sizes[0] == sizes[1] < sizes[2] == sizes[3]
    roots = [Fraction(repr(float(f"{n**0.5:.9g}"))) for n in sizes]
    shares = dict.fromkeys(corpora, Fraction(0))
    for corpus, share in zip(mix.corpora, mix.stages[0].shares, strict=True):
        shares[corpus.name.partition(" ")[0]] += share
    assert [*shares.values()] == [root / sum(roots) for root in roots]
    assert all(stop > start for start, stop in mix.takes(mixing.Position()))
    assert mix_of(settings(text), data).stages[0].shares[0] < mix.stages[0].shares[0]


def test_corpus_is_used_only_into_its_language(run: Path, text: Path, data: Path, tmp_path: Path) -> None:
    train = [{"files": EVERY}, {"files": {"aa": "more.aa", "cc": "more.cc"}, "to": "aa"}]
    for changes in ({}, {"temperature": 2.0}, {"direction_temperature": 2.0}):
        mix = mix_of(settings(text, train=train, **changes), data)
        shares = dict(zip([corpus.name for corpus in mix.corpora], mix.stages[0].shares, strict=True))
        assert shares["aa-cc more.aa"] == 0 < shares["cc-aa more.aa"] and sum(shares.values()) == 1
    shutil.copy(run / "run.json", tmp_path)
    RunDir(tmp_path).config.write_text(dump_config(settings(text, train=train)), encoding="utf-8")
    for to, source, labels in (("cc", "aa", ["train.aa"]), ("aa", "cc", ["train.aa", "more.aa"])):
        config = run_config(ModelRef((tmp_path,), to=to, source=source))
        assert [source.label for source in config.data.train] == labels
    with pytest.raises(ConfigError, match=r"train\.0\.to"):
        settings(text, train=[{"files": EVERY, "to": "zz"}])


MIXED = {
    "direction_temperature": 5.0,
    "training": {"consistency": "crossconst", "bpe_dropout": 0.2, "ema": 0.9, "max_tokens": "auto"},
}


@pytest.mark.parametrize(("window", "changes"), [(1000, {}), (150, MIXED)], ids=["whole", "mixed windows"])
def test_resumed_run_with_directions_is_equal(
    window: int, changes: dict[str, object], text: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    monkeypatch.setattr(mixing, "WINDOW_PAIRS", window)
    config = settings(text, **changes)
    assert mix_of(config, data).is_whole is (window == 1000)
    fit(config, data, tmp_path / "whole")
    train_with_deaths(config, data, tmp_path / "run", monkeypatch, [4, 9])
    assert not differences(kept(tmp_path / "run", ("resume",)), kept(tmp_path / "whole"))


def test_validation_is_the_mean_over_directions(run: Path) -> None:
    for kind in ("valid", "final"):
        *of_directions, mean = [record for record in records(run) if record["kind"].startswith(kind)][-5:]
        assert [record["kind"] for record in of_directions] == [f"{kind}/{direction}" for direction in DIRECTIONS]
        for score in ("nll", "bleu", "chrf"):
            assert mean[score] == pytest.approx(np.mean([record[score] for record in of_directions]))
    [mixture] = [record["shares"] for record in records(run, "mixture")]
    assert sum(mixture.values()) == pytest.approx(1) and len(mixture) == 6
    assert {path.suffix for path in (run / "dev").iterdir()} == {f".{direction}" for direction in DIRECTIONS}
    [alarm] = [each["message"] for each in records(run, "warning") if each["step"] == 6]
    assert alarm.startswith("aa-bb (and 3 more): 12 of 12 translations")


def test_validation_is_greedy_with_any_search(text: Path, data: Path, tmp_path: Path) -> None:
    config = settings(text, search={"mbr": "chrf", "beam": 3})
    session = start(config, data, tmp_path / "run", resume=False)
    validation = session.validator.validate(session.model)
    assert [*validation.by_direction] == DIRECTIONS
    assert len(session.validator.at_end().validate(session.model).translations) == len(validation.translations)


def test_bleu_says_little_about_all_directions_if_it_does_about_one() -> None:
    short, long = (SimpleNamespace(src_lines=[], references=[], longest=1, few_four_grams=why) for why in ("few", None))
    assert DirectionsValidator({"aa-bb": long, "bb-aa": short}).few_four_grams == "few"
    assert DirectionsValidator({"aa-bb": long, "bb-aa": long}).few_four_grams is None


def test_tags_keep_the_ids_of_the_runs_that_initialize_the_stacks(text, data, tmp_path, monkeypatch):
    quicken(monkeypatch)
    some, every, tokenizers = tmp_path / "some", tmp_path / "every", []
    monkeypatch.setattr(saving, "default_tokenizer", {"bb": "13a", "cc": "zh"}.__getitem__)
    monkeypatch.setattr(saving, "use_of", lambda *given: tokenizers.append(given[2]) or "")
    fit(settings(text, ["aa-bb", "aa-cc"], training={"max_steps": 1}), data, some)
    assert tokenizers == ["zh"], "if one of the languages is scored by characters"
    init_from = {"encoder": str(some), "decoder": str(some)}
    start(settings(text, training={"init_from": init_from}), data, every, resume=False)
    tags = [read_tags(RunDir(path).tokenizer.tags) for path in (some, every)]
    assert tags == [["to=bb", "to=cc"], ["to=bb", "to=cc", "to=aa"]]
    new = {"languages": ["bb", "dd"], "train": [{"files": {"bb": "train.bb", "dd": "train.bb"}}], "test": {}}
    config = settings(text, ["bb-dd"], valid=20, **new)
    with pytest.raises(DataError, match="aa"):  # a language that no text was translated into has no tag to copy
        prepared(changed_config(config, ["tokenizer.like={dd: aa}"]), tmp_path / "none", some)


@pytest.mark.parametrize("more", [0, 60])
def test_language_is_added_to_a_trained_model(
    more: int,
    text: Path,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quicken(monkeypatch)
    for name in ("train", "dev", "test"):
        lines = [line.translate({ord("a"): "\u03b1", ord("b"): "\u03b2"}) for line in lines_of(text / f"{name}.aa")]
        write(text / f"{name}.dd", lines)
    old, four = open_saved(run), (*LANGUAGES, "dd")
    theirs = old.tokenizers["aa"]
    n, end = theirs.n_pieces, theirs.n_pieces + more
    config = settings(
        text, ["aa-dd", "dd-aa", *DIRECTIONS], languages=list(four),
        valid={"files": {each: f"dev.{each}" for each in four}},
        train=[{"files": {each: f"train.{each}" for each in four}}], training={"init_from": str(run), "max_steps": 2},
    )  # fmt: skip
    config = changed_config(config, [f"tokenizer.vocab_size={end}", "tokenizer.like={dd: aa}"])
    data = tmp_path / "data"
    said = prepared(config, data, run)
    assert any("not learned" in line for line in said) is (more == 0)
    assert any("up to 60 pieces of dd" in line for line in said) is (more > 0)
    capsys.readouterr()
    model = start(config, data, tmp_path / "start", resume=False).model
    assert "new in the vocabulary: the tag to=dd" + ", 60 pieces" * bool(more) in capsys.readouterr().err
    fit(config, data, tmp_path / "run")
    ours = open_saved(tmp_path / "run").tokenizers["dd"]
    assert ours.n_pieces == end and ours.pieces(range(n)) == theirs.pieces(range(n))
    assert [*ours.tags.items()] == [(name, end + i) for i, name in enumerate([*theirs.tags, "to=dd"])]
    lines = lines_of(text / "train.dd")
    lengths = [sum(map(len, each.encode_all(lines))) for each in (ours, theirs)]
    assert lengths[0] < 0.8 * lengths[1] if more else lengths[0] == lengths[1]
    assert [ours.decode(ids) for ids in ours.encode_all(lines)] == lines
    # old pieces and tags keep their rows, and a new piece begins as the mean of those that spell it
    name = "encoder.embedding.weight"
    table, before = dict(model.named_parameters())[name], old.weights.tensors[name]
    assert table[:n].equal(before[:n]) and table[end:-1].equal(before[n:])
    assert table[-1].equal(before[theirs.tags["to=aa"]])
    for i in range(n, end):
        spelled = theirs.encode_parts([ours.pieces([i])[0].replace("\u2581", " ")])[0]
        assert table[i].allclose(before[spelled].mean(0))
    assert Translator.load(tmp_path / "run").translate(["mali"], to="dd", beam=1)
    with pytest.raises(DataError, match="xx"):
        prepared(changed_config(config, ["tokenizer.like={dd: xx}"]), tmp_path / "none", run)
    if more:  # text with ids that the model lacks
        with pytest.raises(ConfigError, match="pieces"):
            export(ExportOptions(run, data=data, shortlist=True), tmp_path / "listed", "ctranslate2")
    said = prepared(config, data, run)
    assert "up to date" in said[0] and all("ISO 639" in line for line in said[1:])


# --- translation and scores -----------------------------------------------------------------------


def test_target_language_is_chosen(run: Path, text: Path, nmt: Command, tmp_path: Path) -> None:
    translator = Translator.load(run)
    wanted = {to: translator.translate(["mali bore"], to=to, source="aa") for to in ("bb", "cc")}
    assert wanted["bb"] == Translator.load(run, to="bb", source="aa").translate(["mali bore"])
    segmenter = translator.towards("cc", "aa")._segmenter
    [[sentence]] = segmenter.split_lines([Line("mali bore")], translator.config.search)
    assert sentence.src_ids[0] == translator.tokenizers["aa"].tags["to=cc"]
    write(tmp_path / "in", ["mali bore"])
    asked = ("translate", "--run", run, "--input", tmp_path / "in")
    for extra in ((), ("--workers", "1")):
        done = nmt(*asked, "--to", "cc", "--from", "aa", "--output", tmp_path / "out", *extra)
        assert done.status == 0, done.err
        assert lines_of(tmp_path / "out") == wanted["cc"]
    zero_shot = nmt(*asked, "--to", "bb", "--from", "cc")
    assert zero_shot.status == 0 and "cc-bb" in zero_shot.err
    pivot = nmt(*asked, "--to", "bb", "--from", "cc", "--via", "aa")
    steps = translator.translate(translator.translate(["mali bore"], to="aa", source="cc"), to="bb", source="aa")
    assert pivot.out.splitlines() == steps == translator.translate(["mali bore"], to="bb", source="cc", via="aa")
    assert "cc-bb" not in pivot.err
    assert nmt("score", "--run", run, "--src", text / "test.aa", "--ref", text / "test.bb", "--to", "bb").status == 0


REFUSED = {
    "translate --run run --to bb --via aa --input test.aa": "--from",
    "translate --run run --to cc --from aa --via xx --input test.aa": "--via xx",
    "translate --run run --input test.aa": "--to: bb, aa, cc",
    "translate --run run --to b --input test.aa": "bb",
    "translate --run run --to aa --from aa --input test.aa": "from aa to aa",
    "translate --run run --to bb --tag to=bb --input test.aa": "--to",
    "score --run run --src test.aa --ref test.bb": "--to",
    "evaluate --run run --to aa --src test.cc --ref test.aa": "--from: bb, cc",
    "evaluate --run run --to bb --from cc --via aa --split test --data data": "not cc-bb",
    "robustness --run run": "--to",
    "calibrate --run run": "--to",
    "export --run run --format nmt --output none": "'folder'",
    "filter --run run --reverse run --src test.aa --tgt test.bb --output scores": "--to",
    "distil --teacher run --output no": "--to",
    "compare run run2 --html x.html": "--to and --from",
    "compare run run2 --segment-scores Own@run=scores --segment-scores Own@run2=scores": "--to and --from",
}


@pytest.mark.parametrize("command", REFUSED)
def test_missing_or_impossible_direction_is_refused(
    command: str, run: Path, text: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text)
    if command.startswith("compare"):
        shutil.copytree(run, "run2", dirs_exist_ok=True)
        write(Path("scores"), ["1"] * 10)
    refused = nmt(*command.split())
    assert (refused.status, refused.err.count("\n")) == (2, 1), refused.err
    assert REFUSED[command] in refused.err and "Value error" not in refused.err


def test_scores_are_by_direction(run: Path, text: Path, nmt: Command, tmp_path: Path) -> None:
    done = nmt("evaluate", "--run", run, "--output", tmp_path / "out")
    assert done.status == 0, done.err
    scores = read_scores(RunDir(run))
    assert [(record.split, record.direction) for record in scores] == [("test", each) for each in DIRECTIONS]
    assert {record.corpus for record in scores} == {read_info(RunDir(run)).corpus}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"test.{each}" for each in DIRECTIONS}
    [mean] = [line for line in done.out.splitlines() if line.startswith("macro-average of test over 4 directions")]
    bleu = np.mean([record.score("bleu").value for record in scores])  # type: ignore[union-attr]
    assert f"BLEU {bleu:.2f}," in mean and "not measured: py3langid does not know bb" in done.err
    two = nmt("evaluate", "--run", run, "--to", "aa", "--beam", "1", "--format=json")
    assert [each["direction"] for each in json.loads(two.out)] == ["bb-aa", "cc-aa"]
    one = nmt("evaluate", "--run", run, "--to", "bb", "--format=json")
    assert json.loads(one.out)["direction"] == "aa-bb"
    assert nmt("evaluate", "--run", run, "--history").out.count("  test aa-bb ") == 2
    assert api.evaluate(run, to="bb").report.subject.direction == "aa-bb"
    assert [*api.evaluate_all(run)] == [f"test {direction}" for direction in DIRECTIONS]
    pivot = nmt("evaluate", "--run", run, "--to", "bb", "--from", "cc", "--via", "aa", "--src", text / "test.cc",
                "--ref", text / "test.bb")  # fmt: skip
    assert pivot.status == 0 and ", via aa" in pivot.out


@pytest.fixture(scope="module")
def other(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("other") / "other"))


def directions_of(done: Result) -> list[str]:
    """Return the directions that `nmt evaluate` or `nmt compare` has scored."""
    assert done.status == 0, done.err
    return [each.get("direction") or "-".join(each["languages"]) for each in json.loads(done.out)]


def test_directions_without_the_test_set_are_left_out(
    text: Path, data: Path, run: Path, other: Path, tmp_path: Path, nmt: Command
) -> None:
    tests = {"one": {"files": {"aa": "test.aa", "cc": "test.cc"}}}
    prepared(settings(text, test=tests), tmp_path / "data", tokenizer_from=data)
    for command in ("evaluate", "--run", run), ("compare", run, other):
        done = nmt(*command, "--data", tmp_path / "data", "--beam", "1", "--format=json")
        assert directions_of(done) == ["cc-aa", "aa-cc"] and "left out 2 of 4 directions: " in done.err
    with pytest.raises(DataError, match="no split other"):
        api.evaluate_all(run, ["other"], data=tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "aa-bb")
    with pytest.raises(DataError, match="aa-bb"):
        api.evaluate_all(run, data=tmp_path / "data")


def test_directions_of_other_languages_than_the_data_are_left_out(
    text: Path, data: Path, run: Path, other: Path, tmp_path: Path, nmt: Command
) -> None:
    prepared(settings(text, ["cc-aa", "bb-cc"]), tmp_path / "data", tokenizer_from=data)
    for command in ("evaluate", "--run", run), ("compare", run, other):
        for folder in (data / "aa-cc", tmp_path / "data"):
            done = nmt(*command, "--data", folder, "--beam", "1", "--format=json")
            assert directions_of(done) == ["cc-aa", "aa-cc"] and done.err.count("2 of 4") == 1
        for folder, options, said in (
            (data / "aa-cc", ("--to", "bb"), ("contains aa-cc", "aa-bb")),
            (data / "aa-cc", ("--to", "bb", "--from", "cc"), ("contains aa-cc", "cc-bb")),
            (data / "aa-cc", ("--split", "tset"), ("no split tset",)),
            (tmp_path / "data" / "bb-cc", (), ("contains bb-cc", "aa-bb")),
        ):
            refused = nmt(*command, "--data", folder, *options)
            last = refused.err.splitlines()[-1]
            assert refused.status == 2 and f"{folder}" in last and all(each in last for each in said), refused.err


def test_comparison_is_by_direction(run: Path, other: Path, data: Path, nmt: Command) -> None:
    done = nmt("compare", run, other, "--beam", "1")
    assert done.status == 0, done.err
    assert [line for line in done.out.splitlines() if line.startswith("test: ")] == [
        f"test: {direction}, 10 lines, compared with run" for direction in DIRECTIONS
    ]
    assert "macro-average over 4 directions, BLEU: run " in done.out
    assert done.out.count("95 % intervals:") == 1  # explained once
    two = nmt("compare", run, other, "--from", "aa", "--beam", "1", "--format=json")
    assert directions_of(two) == ["aa-bb", "aa-cc"]
    one = nmt("compare", run, other, "--to", "cc", "--beam", "1", "--format=json")
    assert json.loads(one.out)["languages"] == ["aa", "cc"]
    corpus = open_corpus(RunDir(run), ("aa", "cc"), data / "aa-cc")
    assert corpus.whole == read_contents(DataDir(data)).fingerprint


def test_share_of_other_languages() -> None:
    texts = ["The dog is in the garden and sleeps.", "Der Hund ist im Garten und schläft.", ""]
    assert share_of_others(texts, "en", ["de", "en"]) == share_of_others(texts, "eng", ["deu", "eng"]) == 0.5
    assert share_of_others([""], "en", ["de", "en"]) == 0
    assert share_of_others(["O cachorro está no jardim e dorme."], "pt_BR", ["en", "pt", "pt_BR"]) == 0
    with pytest.raises(DataError, match="xx"):
        share_of_others(texts, "xx", ["en", "xx"])
    translator = SimpleNamespace(
        tokenizers=SimpleNamespace(languages=["de", "en"]), config=SimpleNamespace(data=SimpleNamespace(tgt="en"))
    )
    scores = _off_target(translator, texts[:2], texts[:1] * 2)  # type: ignore[arg-type]
    assert [score.value for score in scores] == [50, 0], "in percent"


def test_filter_and_rerank_take_languages(run: Path, text: Path, nmt: Command) -> None:
    asked = ("--run", run, "--reverse", run, "--to", "bb", "--src", text / "test.aa")
    for command in (
        ("filter", *asked, "--from", "aa", "--tgt", text / "test.bb", "--output", "-"),
        ("rerank", *asked, "--n-best", "2"),
    ):
        done = nmt(*command)
        assert done.status == 0 and len(done.out.splitlines()) == 10, done.err


def test_student_and_back_translation_have_one_direction(run: Path, text: Path, nmt: Command) -> None:
    translator, sources = Translator.load(run), Corpus.open(DataDir(text / "data" / "aa-cc")).split("train").text("aa")
    write(Path("mono.bb"), ["mali bore", "robe"])
    for command, (source, to, lines), file, labels in (
        ("distil --beam 1 --teacher", ("aa", "cc", sources), "distilled.cc", [None]),
        (
            "back-translate --mono mono.bb --how greedy --reverse",
            ("bb", "aa", lines_of(Path("mono.bb"))),
            "synthetic.aa",
            [None, "bb"],
        ),
    ):
        done = nmt(*command.split(), run, "--to", to, "--from", source, "--output", file[:4])
        assert done.status == 0 and "has no translation" in done.err  # all end at the length limit
        config = load_config(f"{file[:4]}/config.yaml").data
        assert (config.direction, config.has_language_tags) == ("aa-cc" if to == "cc" else "aa-bb", False)
        assert [source.to for source in config.train] == labels
        expected = translator.translate(lines, to=to, source=source, beam=1)
        # a translation without an end is left out
        assert all(text in ("", line) for text, line in zip(lines_of(Path(file[:4], file)), expected, strict=True))


def test_settings_of_several_directions_are_left_out_of_a_student(run: Path, text: Path, tmp_path: Path) -> None:
    training = {"consistency": "crossconst", "consistency_weight": 0.25}
    shutil.copy(run / "run.json", tmp_path)
    config = settings(text, direction_temperature=5.0, training=training)
    RunDir(tmp_path).config.write_text(dump_config(config), encoding="utf-8")
    student = changed_config(run_config(ModelRef((tmp_path,), to="cc", source="aa")), [])
    assert (student.data.direction, student.training.consistency) == ("aa-cc", "none")


# --- exports and the server -----------------------------------------------------------------------


def test_exports_translate_in_all_directions(run: Path, tmp_path: Path) -> None:
    expected = {to: Translator.load(run).translate(["mali bore"], to=to, source="aa", beam=1) for to in ("bb", "cc")}
    for kind in ("folder", "ctranslate2"):
        path = export(ExportOptions(run), tmp_path / kind, kind).path  # type: ignore[arg-type]
        card = (path / "README.md").read_text(encoding="utf-8")
        assert "`cc-aa`" in card and "--to bb" in card and "language:\n- aa\n- bb\n- cc\n" in card
        assert card.count("mean over directions") == 1
        assert "240 pairs read, " in card and "30 pairs read, " in card and "20 pairs read, " in card
        loaded = Translator.load(path) if kind == "folder" else engine_for([path])
        assert {to: loaded.translate(["mali bore"], to=to, source="aa", beam=1) for to in ("bb", "cc")} == expected
    other = next(step for step in saved_steps(RunDir(run)) if step != read_selected(RunDir(run)).best_step)
    path = export(ExportOptions(ModelRef((run,), str(other))), tmp_path / "other", "folder").path
    assert "mean over directions" not in (path / "README.md").read_text("utf-8"), "its scores on all lines are unknown"
    with pytest.raises(ConfigError, match="tags"):
        export_argos(ExportOptions(run), tmp_path / "x.argosmodel")


@pytest.mark.parametrize("zero_shot", [False, True])
def test_server_offers_trained_directions_first(run: Path, zero_shot: bool) -> None:
    translator, models = Translator.load(run), load_models([run], "native", False, (), zero_shot)
    assert models.languages == ["aa", "bb", "cc"]
    assert all(models.targets(source) == [to for to in LANGUAGES if to != source] for source in LANGUAGES)
    steps = models.route("bb", "cc")
    assert steps is not None and len(steps) == (1 if zero_shot else 2)
    [direct] = models.route("aa", "cc") or []
    [[best, *_]] = direct.translate_window([Line("mali bore")], Options(direct.config.search))
    assert [best.text] == translator.translate(["mali bore"], to="cc", source="aa", protect="placeholders")
    with serving(Service(models)) as client:
        answer = client.ask("/v1/translate", {"text": "mali bore", "source": "bb", "target": "cc"})
    [wanted] = translator.translate(["mali bore"], to="cc", source="bb", via=None if zero_shot else "aa")
    assert answer.json["translations"][0]["text"] == wanted
