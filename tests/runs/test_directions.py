"""One model with several directions: configs, prepared text, training, translation, scores, exports and the server."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command import Command
from fitting import fit, start
from kept_run import Died, die_before, differences, kept, quicken
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
from nmt.recipes.directory import run_config
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


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In cc, the words of aa are in capitals; `more` has other sentences."""
    folder = tmp_path_factory.mktemp("directions")
    tiny_text(folder, 120)
    for name in ("train", "dev", "test"):
        lines = (folder / f"{name}.aa").read_text(encoding="utf-8").splitlines()
        write(folder / f"{name}.cc", [line.upper() for line in lines])
    lines = (folder / "train.aa").read_text(encoding="utf-8").splitlines()[:30]
    write(folder / "more.aa", [f"so {line}" for line in lines])
    write(folder / "more.cc", [f"SO {line.upper()}" for line in lines])
    return folder


@pytest.fixture(scope="module")
def data(text: Path) -> Path:
    prepare(settings(text), text / "data", echo=lambda _: None)
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
    files = {"train": [{"files": EVERY}]}
    config = settings(Path("text"), directions, **files)
    assert config.data.directions == expected and config.data.direction == expected[0]
    assert changed_config(config, []) == config
    view = config.data.towards(expected[-1])
    assert view.sides == tuple(expected[-1].split("-")) and view.directions == expected[-1:]
    assert view.train[0].named_languages == sorted(view.sides)


def test_sources_are_restricted_to_languages() -> None:
    train = [{"opus": "Some/v1"}, {"path": "more.tmx", "languages": ["aa", "bb"]}]
    config = settings(Path("text"), train=train)
    assert changed_config(config, []) == config
    assert [[each.label for each in config.data.towards(pair).train] for pair in ("aa-bb", "aa-cc")] == [
        ["Some-v1", "more.tmx"],
        ["Some-v1"],
    ]
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
    changes = {"stages": [{"weights": {"more.aa": 1}}]}
    config = settings(Path("text"), training=changes)
    for to, source in (("bb", "aa"), ("cc", "bb")):
        assert changed_config(config.choose_languages(to, source), ["search.beam=1"]).data.direction == f"{source}-{to}"
    assert config.choose_languages("cc", "bb").training.stages == []
    assert config.choose_languages("cc", "aa").training.stages == config.training.stages, (
        "it has the corpus that they name"
    )
    one_way = settings(Path("text"), train=[{"files": EVERY}, {"files": EVERY, "to": "cc", "name": "back"}])
    for to, source, n in (("cc", "aa", 2), ("aa", "cc", 1)):
        assert len(changed_config(one_way.choose_languages(to, source), ["search.beam=1"]).data.train) == n
    assert config.choose_languages("aa", ANY).data.direction == "bb-aa"
    assert settings(Path("text"), direction="cc-aa").choose_languages("aa", ANY).data.direction == "cc-aa"
    with pytest.raises(ConfigError, match="--from: bb, cc"):
        config.choose_languages("aa")
    imported = tiny_settings(Path("text"))
    assert (
        imported.choose_languages("bb") == imported and imported.choose_languages("bb", None, ["bb"]).search.to == "bb"
    )


# --- prepared text --------------------------------------------------------------------------------


def test_pairs_share_a_tokenizer_and_no_held_out_line(text: Path, data: Path, tmp_path: Path) -> None:
    write(text / "leak.aa", ["mali bore", *(text / "dev.aa").read_text(encoding="utf-8").splitlines()[:2]])
    write(text / "leak.cc", ["MALI BORE", "LAMI ROBE", "ROBE"])
    sources = [{"files": EVERY}, {"files": {"aa": "leak.aa", "cc": "leak.cc"}}]
    prepare(settings(text, train=sources, valid=5), tmp_path / "data", echo=lambda _: None)
    corpora = Corpora.open(DataDir(tmp_path / "data"), settings(text).data)
    assert len({corpus.tokenizers.fingerprint for corpus in corpora.distinct}) == 1
    first, second = corpora.distinct
    assert [first.languages, second.languages] == [("aa", "bb"), ("aa", "cc")]
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
    said: list[str] = []
    write(tmp_path / "two.aa", (text / "more.aa").read_text(encoding="utf-8").splitlines()[:3])
    write(tmp_path / "two.bb", ["bore", "robe", "lami"])
    config = settings(text, test={"two": {"files": {name: str(tmp_path / f"two.{name}") for name in ("aa", "bb")}}})
    dry_run(config, echo=said.append)
    [of_corpus] = [line for line in said if "more.aa  " in line]
    assert of_corpus.split()[2:5] == ["30", "27", "3"] and of_corpus.endswith("in a dev or test set 3")


def test_problem_of_a_pair_names_it(text: Path, tmp_path: Path) -> None:
    write(tmp_path / "none.cc", [""] * 10)
    held_out = {"files": {"aa": str(text / "dev.aa"), "bb": str(text / "dev.bb"), "cc": str(tmp_path / "none.cc")}}
    config = settings(text, valid=held_out)
    for act in (lambda: prepare(config, tmp_path / "data", echo=lambda _: None), lambda: dry_run(config, echo=str)):
        with pytest.raises(DataError, match=r"^aa-cc: "):
            act()
    assert not (tmp_path / "data").exists()


def test_prepared_pairs_are_kept_until_a_file_changes(text: Path, tmp_path: Path) -> None:
    for path in text.glob("*.??"):
        shutil.copy(path, tmp_path)
    said: list[str] = []
    config = settings(tmp_path)
    prepare(config, tmp_path / "data", echo=said.append)
    before = read_contents(DataDir(tmp_path / "data"))
    said.clear()
    prepare(settings(tmp_path, ["aa-cc", "bb-aa"], direction_temperature=5.0), tmp_path / "data", echo=said.append)
    assert "up to date" in said[0] and all("ISO 639" in line for line in said[1:])
    said.clear()
    write(tmp_path / "more.cc", [*(tmp_path / "more.cc").read_text(encoding="utf-8").splitlines()[:-1], "NEW"])
    prepare(config, tmp_path / "data", echo=said.append)
    assert "cc has changed" in said[0]
    after = read_contents(DataDir(tmp_path / "data"))
    assert after.fingerprint != before.fingerprint
    prepare(config, tmp_path / "again", tokenizer_from=tmp_path / "data", echo=lambda _: None)
    with pytest.raises(DataError, match="would be prepared again"):
        prepare(settings(tmp_path, ["aa-bb"]), tmp_path / "data", echo=said.append)


def test_append_to_one_of_several_pairs_is_rejected(text: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data / "aa-bb")
    for directory in (data, data / "aa-bb", tmp_path / "link"):
        with pytest.raises(DataError, match="several pairs"):
            append(settings(text), directory)


def test_one_pair_is_prepared_as_without_directions(text: Path, tmp_path: Path) -> None:
    two = {"aa": "train.aa", "bb": "train.bb"}
    for name, data in {
        "several": {"directions": ["aa-bb", "bb-aa"], "direction": "", "train": [{"files": EVERY}]},
        "one": {"train": [{"files": two}]},
    }.items():
        prepare(tiny_settings(text, data=data), tmp_path / name, echo=lambda _: None)

    def files(folder: Path) -> dict[str, str]:
        return {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith("report")
        }

    assert files(tmp_path / "several") == files(tmp_path / "one")


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: write(path, ["MALI"])], ids=["missing", "shorter"])
def test_damaged_file_of_several_is_refused(damage: Callable[[Path], None], text: Path, tmp_path: Path) -> None:
    for path in text.glob("*.??"):
        shutil.copy(path, tmp_path)
    damage(tmp_path / "train.cc")
    with pytest.raises(DataError, match=r"train\.cc"):
        prepare(settings(tmp_path), tmp_path / "data", echo=lambda _: None)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("n", "wanted"), [(7, 3), (7, 7), (7, 16), (1, 4)])
def test_lines_are_sampled_evenly(n: int, wanted: int) -> None:
    counts = Counter(evenly(lambda: map(str, range(n)), n, wanted))
    assert counts.total() == wanted and max(counts.values()) - min([*counts.values(), wanted // n]) <= 1


# --- training -------------------------------------------------------------------------------------


def test_target_language_precedes_every_source(text: Path, tmp_path: Path) -> None:
    train = [{"files": EVERY, "tags": {"kind": "x"}}, {"files": {"aa": "more.aa", "cc": "more.cc"}}]
    config = settings(text, train=train, training={"tag_dropout": 0.5})
    prepare(config, tmp_path / "data", echo=lambda _: None)
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
    manifests = {name: each.manifest for name, each in Corpora.open(DataDir(data), config.data).by_direction.items()}
    mix = mixing.make_mix(config.data, config.training.stages, manifests)
    sizes = [manifest.splits["train"].pairs for manifest in manifests.values()]
    assert mix.n_pairs == sum(sizes) and sizes[0] == sizes[1] < sizes[2] == sizes[3]
    roots = [Fraction(repr(float(f"{n**0.5:.9g}"))) for n in sizes]
    by_direction = {name: Fraction(0) for name in manifests}
    for corpus, share in zip(mix.corpora, mix.stages[0].shares, strict=True):
        by_direction[corpus.name.partition(" ")[0]] += share
    assert [*by_direction.values()] == [root / sum(roots) for root in roots]
    assert sum(by_direction.values()) == 1
    taken = mix.takes(mixing.Position())
    assert all(stop > start for start, stop in taken)
    plain = mixing.make_mix(settings(text).data, settings(text).training.stages, manifests).stages[0].shares
    assert plain[0] < mix.stages[0].shares[0]


def test_corpus_is_used_only_into_its_language(run: Path, text: Path, data: Path, tmp_path: Path) -> None:
    train = [{"files": EVERY}, {"files": {"aa": "more.aa", "cc": "more.cc"}, "to": "aa"}]
    for changes in ({}, {"temperature": 2.0}, {"direction_temperature": 2.0}):
        config = settings(text, train=train, **changes)
        corpora = Corpora.open(DataDir(data), config.data).by_direction
        mix = mixing.make_mix(
            config.data, config.training.stages, {name: each.manifest for name, each in corpora.items()}
        )
        shares = dict(zip([corpus.name for corpus in mix.corpora], mix.stages[0].shares, strict=True))
        assert shares["aa-cc more.aa"] == 0 < shares["cc-aa more.aa"] and sum(shares.values()) == 1
    shutil.copy(run / "run.json", tmp_path)
    RunDir(tmp_path).config.write_text(dump_config(settings(text, train=train)), encoding="utf-8")
    found = [
        [source.label for source in run_config(ModelRef((tmp_path,), to=each[0], source=each[1])).data.train]
        for each in (("cc", "aa"), ("aa", "cc"))
    ]
    assert found == [["train.aa"], ["train.aa", "more.aa"]]
    with pytest.raises(ConfigError, match=r"train\.0\.to"):
        settings(text, train=[{"files": EVERY, "to": "zz"}])


@pytest.mark.parametrize(
    "window, changes",
    [
        (1000, {}),
        (
            150,
            {
                "direction_temperature": 5.0,
                "training": {"consistency": "crossconst", "bpe_dropout": 0.2, "ema": 0.9, "max_tokens": "auto"},
            },
        ),
    ],
    ids=["whole", "mixed windows"],
)
def test_resumed_run_with_directions_is_equal(
    window: int, changes: dict[str, object], text: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    monkeypatch.setattr(mixing, "WINDOW_PAIRS", window)
    config = settings(text, **changes)
    manifests = {name: each.manifest for name, each in Corpora.open(DataDir(data), config.data).by_direction.items()}
    assert mixing.make_mix(config.data, config.training.stages, manifests).is_whole is (window == 1000)
    fit(config, data, tmp_path / "whole")
    for step in (4, 9):
        with monkeypatch.context() as patch, pytest.raises(Died):
            die_before(step, patch)
            fit(config, data, tmp_path / "run", resume=step > 4)
    fit(config, data, tmp_path / "run", resume=True)
    assert not differences(kept(tmp_path / "run", ("resume",)), kept(tmp_path / "whole"))


def test_validation_is_the_mean_over_directions(run: Path) -> None:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = {record["kind"] for record in records}
    assert {f"{kind}/{direction}" for kind in ("valid", "final") for direction in DIRECTIONS} <= kinds
    for kind in ("valid", "final"):
        *of_directions, mean = [record for record in records if record["kind"].startswith(kind)][-5:]
        for score in ("nll", "bleu", "chrf"):
            assert mean[score] == pytest.approx(np.mean([record[score] for record in of_directions]))
    [mixture] = [record["shares"] for record in records if record["kind"] == "mixture"]
    assert sum(mixture.values()) == pytest.approx(1) and len(mixture) == 6
    assert {path.suffix for path in (run / "dev").iterdir()} == {f".{direction}" for direction in DIRECTIONS}
    [alarm] = [each["message"] for each in records if each["kind"] == "warning" and each["step"] == 6]
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
    some, every = tmp_path / "some", tmp_path / "every"
    tokenizers = []
    monkeypatch.setattr(saving, "default_tokenizer", {"bb": "13a", "cc": "zh"}.__getitem__)
    monkeypatch.setattr(saving, "use_of", lambda *given: tokenizers.append(given[2]) or "")
    fit(settings(text, ["aa-bb", "aa-cc"], training={"max_steps": 1}), data, some)
    assert tokenizers == ["zh"], "if one of the languages is scored by characters"
    init_from = {"encoder": str(some), "decoder": str(some)}
    start(settings(text, training={"init_from": init_from}), data, every, resume=False)
    tags = [read_tags(RunDir(path).tokenizer.tags) for path in (some, every)]
    assert tags == [["to=bb", "to=cc"], ["to=bb", "to=cc", "to=aa"]]


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
        lines = (text / f"{name}.aa").read_text(encoding="utf-8").splitlines()
        write(text / f"{name}.dd", [line.translate({ord("a"): "\u03b1", ord("b"): "\u03b2"}) for line in lines])
    four = (*LANGUAGES, "dd")
    held_out = {name: {"files": {each: f"{name}.{each}" for each in four}} for name in ("dev", "test")}
    config = settings(
        text, ["aa-dd", "dd-aa", *DIRECTIONS], languages=list(four), valid=held_out["dev"],
        train=[{"files": {each: f"train.{each}" for each in four}}], training={"init_from": str(run), "max_steps": 2},
    )  # fmt: skip
    old = open_saved(run)
    theirs = old.tokenizers["aa"]
    config = changed_config(config, [f"tokenizer.vocab_size={theirs.n_pieces + more}"])
    echoed = list[str]()
    prepare(config, tmp_path / "data", tokenizer_from=run, echo=echoed.append)
    assert any("not learned" in line for line in echoed) is (more == 0)
    assert any("up to 60 pieces of dd" in line for line in echoed) is (more > 0)
    capsys.readouterr()
    model = start(config, tmp_path / "data", tmp_path / "start", resume=False).model
    assert "new in the vocabulary: the tag to=dd" + ", 60 pieces" * bool(more) in capsys.readouterr().err
    fit(config, tmp_path / "data", tmp_path / "run")
    ours = open_saved(tmp_path / "run").tokenizers["dd"]
    n, end = theirs.n_pieces, theirs.n_pieces + more
    assert ours.n_pieces == end and ours.pieces(range(n)) == theirs.pieces(range(n))
    assert [*ours.tags.items()] == [(name, end + i) for i, name in enumerate([*theirs.tags, "to=dd"])]
    lines = (text / "train.dd").read_text(encoding="utf-8").splitlines()
    lengths = [sum(map(len, each.encode_all(lines))) for each in (ours, theirs)]
    assert lengths[0] < 0.8 * lengths[1] if more else lengths[0] == lengths[1]
    assert [ours.decode(ids) for ids in ours.encode_all(lines)] == lines
    # old pieces and tags keep their rows, and a new piece begins as the mean of those that spell it
    name = "encoder.embedding.weight"
    table, before = dict(model.named_parameters())[name], old.weights.tensors[name]
    assert table[:n].equal(before[:n]) and table[end:-1].equal(before[n:])
    for i in range(n, end):
        spelled = theirs.encode_parts([ours.pieces([i])[0].replace("\u2581", " ")])[0]
        assert table[i].allclose(before[spelled].mean(0))
    assert Translator.load(tmp_path / "run").translate(["mali"], to="dd", beam=1)
    said: list[str] = []
    prepare(config, tmp_path / "data", tokenizer_from=run, echo=said.append)
    assert "up to date" in said[0] and all("ISO 639" in line for line in said[1:])


# --- translation and scores -----------------------------------------------------------------------


def test_target_language_is_chosen(run: Path, text: Path, nmt: Command, tmp_path: Path) -> None:
    translator = Translator.load(run)
    found = {to: translator.translate(["mali bore"], to=to, source="aa") for to in ("bb", "cc")}
    assert found["bb"] == Translator.load(run, to="bb", source="aa").translate(["mali bore"])
    segmenter = translator.towards("cc", "aa")._segmenter
    [[sentence]] = segmenter.split_lines([Line("mali bore")], translator.config.search)
    assert sentence.src_ids[0] == translator.tokenizers["aa"].tags["to=cc"]
    (tmp_path / "in").write_text("mali bore\n", encoding="utf-8")
    for extra in ((), ("--workers", "1")):
        done = nmt("translate", "--run", run, "--to", "cc", "--from", "aa", "--input", tmp_path / "in",
                   "--output", tmp_path / "out", *extra)  # fmt: skip
        assert done.status == 0, done.err
        assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == found["cc"]
    zero_shot = nmt("translate", "--run", run, "--to", "bb", "--from", "cc", "--input", tmp_path / "in")
    assert zero_shot.status == 0 and "cc-bb" in zero_shot.err
    pivot = nmt("translate", "--run", run, "--to", "bb", "--from", "cc", "--via", "aa", "--input", tmp_path / "in")
    steps = translator.translate(translator.translate(["mali bore"], to="aa", source="cc"), to="bb", source="aa")
    assert pivot.out.splitlines() == steps == translator.translate(["mali bore"], to="bb", source="cc", via="aa")
    assert "cc-bb" not in pivot.err
    files = ("--src", text / "test.aa", "--ref", text / "test.bb")
    assert nmt("score", "--run", run, *files, "--to", "bb").status == 0


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
    records = read_scores(RunDir(run))
    assert [(record.split, record.direction) for record in records] == [("test", each) for each in DIRECTIONS]
    assert {record.corpus for record in records} == {read_info(RunDir(run)).corpus}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"test.{each}" for each in DIRECTIONS}
    [mean] = [line for line in done.out.splitlines() if line.startswith("macro-average of test over 4 directions")]
    bleu = np.mean([record.score("bleu").value for record in records])  # type: ignore[union-attr]
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


def test_directions_without_the_test_set_are_left_out(
    text: Path, data: Path, run: Path, tmp_path: Path, nmt: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = {"one": {"files": {"aa": "test.aa", "cc": "test.cc"}}}
    prepare(settings(text, test=tests), tmp_path / "data", tokenizer_from=data, echo=lambda _: None)
    assert [*api.evaluate_all(run, data=tmp_path / "data")] == ["one cc-aa", "one aa-cc"]
    assert "left out 2 of 4 directions: " in capsys.readouterr().err
    shutil.copytree(run, tmp_path / "other")
    compared = nmt("compare", run, tmp_path / "other", "--data", tmp_path / "data", "--beam", "1", "--format=json")
    assert compared.status == 0, compared.err
    assert [each["languages"] for each in json.loads(compared.out)] == [["cc", "aa"], ["aa", "cc"]]
    with pytest.raises(DataError, match="no split other"):
        api.evaluate_all(run, ["other"], data=tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "aa-bb")
    with pytest.raises(DataError, match="aa-bb"):
        api.evaluate_all(run, data=tmp_path / "data")


def test_directions_of_other_languages_than_the_data_are_left_out(
    text: Path, data: Path, run: Path, tmp_path: Path, nmt: Command
) -> None:
    prepare(settings(text, ["cc-aa", "bb-cc"]), tmp_path / "data", tokenizer_from=data, echo=lambda _: None)
    shutil.copytree(run, tmp_path / "other")
    commands = ("evaluate", "--run", run), ("compare", run, tmp_path / "other")
    for command in commands:
        for folder in (data / "aa-cc", tmp_path / "data"):
            done = nmt(*command, "--data", folder, "--beam", "1", "--format=json")
            assert done.status == 0, done.err
            found = [each.get("direction") or "-".join(each["languages"]) for each in json.loads(done.out)]
            assert found == ["cc-aa", "aa-cc"]
            assert done.err.count("2 of 4") == 1
        for folder, options, said in (
            (data / "aa-cc", ("--to", "bb"), ("contains aa-cc", "aa-bb")),
            (data / "aa-cc", ("--to", "bb", "--from", "cc"), ("contains aa-cc", "cc-bb")),
            (data / "aa-cc", ("--split", "tset"), ("no split tset",)),
            (tmp_path / "data" / "bb-cc", (), ("contains bb-cc", "aa-bb")),
        ):
            refused = nmt(*command, "--data", folder, *options)
            last = refused.err.splitlines()[-1]
            assert refused.status == 2 and f"{folder}" in last and all(each in last for each in said), refused.err


def test_comparison_is_by_direction(run: Path, data: Path, nmt: Command, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "other")
    done = nmt("compare", run, tmp_path / "other", "--beam", "1")
    assert done.status == 0, done.err
    assert [line for line in done.out.splitlines() if line.startswith("test: ")] == [
        f"test: {direction}, 10 lines, compared with run" for direction in DIRECTIONS
    ]
    assert "macro-average over 4 directions, BLEU: run " in done.out
    assert done.out.count("95 % intervals:") == 1  # explained once
    two = nmt("compare", run, tmp_path / "other", "--from", "aa", "--beam", "1", "--format=json")
    assert [each["languages"] for each in json.loads(two.out)] == [["aa", "bb"], ["aa", "cc"]]
    one = nmt("compare", run, tmp_path / "other", "--to", "cc", "--beam", "1", "--format=json")
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


def test_recipes_take_languages(run: Path, text: Path, tmp_path: Path, nmt: Command) -> None:
    pairs = ("--src", text / "test.aa", "--tgt", text / "test.bb")
    both = nmt("filter", "--run", run, "--reverse", run, "--to", "bb", "--from", "aa", *pairs, "--output", "-")
    assert both.status == 0 and len(both.out.splitlines()) == 10, both.err
    ranked = nmt("rerank", "--run", run, "--reverse", run, "--to", "bb", "--src", text / "test.aa", "--n-best", "2")
    assert ranked.status == 0 and len(ranked.out.splitlines()) == 10, ranked.err
    options = ("--to", "cc", "--from", "aa", "--output", tmp_path / "student", "--beam", "1")
    done = nmt("distil", "--teacher", run, *options)
    assert done.status == 0 and "has no translation" in done.err  # all end at the length limit
    config = load_config(tmp_path / "student" / "config.yaml")
    assert (config.data.direction, config.data.has_language_tags) == ("aa-cc", False)
    translator, sources = Translator.load(run), Corpus.open(DataDir(text / "data" / "aa-cc")).split("train").text("aa")
    expected = translator.translate(sources, to="cc", source="aa", beam=1)
    distilled = (tmp_path / "student" / "distilled.cc").read_text(encoding="utf-8").splitlines()
    # a translation without an end is left out
    assert all(found in ("", line) for found, line in zip(distilled, expected, strict=True))
    other = {"consistency": "crossconst", "consistency_weight": 0.25}
    (tmp_path / "other").mkdir()
    shutil.copy(run / "run.json", tmp_path / "other")
    RunDir(tmp_path / "other").config.write_text(
        dump_config(settings(text, direction_temperature=5.0, training=other)), encoding="utf-8"
    )
    found = changed_config(run_config(ModelRef((tmp_path / "other",), to="cc", source="aa")), [])
    assert (found.data.direction, found.training.consistency) == ("aa-cc", "none")
    write(tmp_path / "mono.bb", ["mali bore", "robe"])
    asked = ("--to", "aa", "--from", "bb", "--output", tmp_path / "back")
    done = nmt("back-translate", "--reverse", run, *asked, "--mono", tmp_path / "mono.bb", "--how", "greedy")
    assert done.status == 0 and "has no translation" in done.err
    config = load_config(tmp_path / "back" / "config.yaml")
    assert (config.data.direction, config.data.has_language_tags) == ("aa-bb", False)
    assert [source.to for source in config.data.train] == [None, "bb"]
    found = (tmp_path / "back" / "synthetic.aa").read_text(encoding="utf-8").splitlines()
    expected = translator.translate(["mali bore", "robe"], to="aa", source="bb", beam=1)
    assert all(one in ("", other) for one, other in zip(found, expected, strict=True))


# --- exports and the server -----------------------------------------------------------------------


def test_exports_translate_in_all_directions(run: Path, tmp_path: Path) -> None:
    expected = {to: Translator.load(run).translate(["mali bore"], to=to, source="aa", beam=1) for to in ("bb", "cc")}
    for kind in ("folder", "ctranslate2"):
        exported = export(ExportOptions(run), tmp_path / kind, kind)  # type: ignore[arg-type]
        card = (exported.path / "README.md").read_text(encoding="utf-8")
        assert "`cc-aa`" in card and "--to bb" in card and "language:\n- aa\n- bb\n- cc\n" in card
        assert card.count("mean over directions") == 1
        assert "240 pairs read, " in card and "30 pairs read, " in card and "20 pairs read, " in card
        loaded = Translator.load(exported.path) if kind == "folder" else engine_for([exported.path])
        assert {to: loaded.translate(["mali bore"], to=to, source="aa", beam=1) for to in ("bb", "cc")} == expected
    other = next(step for step in saved_steps(RunDir(run)) if step != read_selected(RunDir(run)).best_step)
    exported = export(ExportOptions(ModelRef((run,), str(other))), tmp_path / "other", "folder")
    card = (exported.path / "README.md").read_text("utf-8")
    assert "mean over directions" not in card, "its scores on all lines are unknown"
    with pytest.raises(ConfigError, match="tags"):
        export_argos(ExportOptions(run), tmp_path / "x.argosmodel")


def test_server_offers_trained_directions_first(run: Path) -> None:
    asked = Translator.load(run).translate(["mali bore"], to="cc", source="aa", protect="placeholders")
    for zero_shot in (False, True):
        models = load_models([run], "native", False, (), zero_shot)
        assert models.languages == ["aa", "bb", "cc"]
        assert {source: models.targets(source) for source in LANGUAGES} == {
            "aa": ["bb", "cc"], "bb": ["aa", "cc"], "cc": ["aa", "bb"]
        }  # fmt: skip
        steps = models.route("bb", "cc")
        assert steps is not None and len(steps) == (1 if zero_shot else 2)
        [direct] = models.route("aa", "cc") or []
        [[best, *_]] = direct.translate_window([Line("mali bore")], Options(direct.config.search))
        assert best.text == asked[0]
        with serving(Service(models)) as client:
            found = client.ask("/v1/translate", {"text": "mali bore", "source": "bb", "target": "cc"})
        via = None if zero_shot else "aa"
        [wanted] = Translator.load(run).translate(["mali bore"], to="cc", source="bb", via=via)
        assert found.json["translations"][0]["text"] == wanted
