"""Dry runs, which report what `prepare` would do on the whole text or a sample, and write nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from command import Command
from folders import TRAIN, VALID, Folder, files
from nmt.data.manifest import content_fingerprint, file_facts
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.pipeline.read import spread
from nmt.prepare.prepare import dry_run, prepare

LONG = (" ".join(pair[0] for pair in TRAIN[:6]), TRAIN[0][1])
BAD = [("leer", ""), ("Berlin", "Berlin"), LONG, TRAIN[3], VALID[5], ("x" * 1001, "y" * 900)]


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    place = Folder(tmp_path)
    place.write(more=[*BAD, *TRAIN[200:], *BAD])
    return place


def run(place: Folder, sample: int | None = None, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the report of a dry run of two corpora, and the printed lines."""
    changes = {"data__train": [files("train"), files("more")], "data__max_ratio": 2.0} | changes
    said: list[str] = []
    path = place.folder.parent / "report.json"
    dry_run(place.config(**changes), sample, path, said.append)
    report = json.loads(path.read_bytes())
    path.unlink()
    return dict(report), said


def test_dry_run_reports_same_counts_as_prepare(place: Folder) -> None:
    changes = {"data__train": [files("train"), files("more")], "data__max_ratio": 2.0}
    dry, said = run(place)
    assert place.left() == set()
    told = place.prepare(**changes)
    prepared = json.loads(DataDir(place.data).report.read_bytes())
    assert [corpus["dropped"] for corpus in dry["corpora"]] == [
        {}, {"empty": 2, "overlap": 2, "long": 2, "ratio": 2, "copied": 2, "duplicate": 42},
    ]  # fmt: skip
    for key in ("corpora", "held_out", "settings", "warnings", "character_edges"):
        assert dry[key] == prepared[key], key
    assert (dry["kind"], dry["sample"], dry["tokenizer"]) == ("dry run", None, None)
    assert said[:3] == told.split("\n")[:3]
    assert "  more.de, pair 1" in said and said[-2].startswith("nothing was prepared")


def test_dry_run_of_several_pairs_reports_same_counts_and_warnings_as_prepare(place: Folder) -> None:
    train = [files("train"), {"files": {"en": "train.en", "fr": "train.de"}}]  # en is in both, fr is German
    changes = {"data__directions": ["de-en", "en-fr"], "data__train": train, "data__valid": 20, "data__test": {}}
    dry: list[str] = []
    dry_run(place.config("", **changes), echo=dry.append)
    prepare(place.config("", **changes), place.data, echo=place.said.append)
    counts = [[line for line in said if line.startswith("train")] for said in (dry, place.said)]
    assert counts[0] == counts[1] and len(counts[0]) == 2
    warnings = [line for line in place.said if line.startswith("warning: ")]
    assert warnings and all(line.startswith("warning: en-fr: data.train.0 (train.en)") for line in warnings)
    assert warnings[0][:60] in "\n".join(dry)


def test_given_model_has_same_warnings_and_pieces_per_word_in_dry_run_as_in_prepare(place: Folder) -> None:
    """Also with several pairs of languages, of which `en` is in both."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.replace("\u00fc", "u").replace("\u00f6", "o") for pair in TRAIN for line in pair),
        model_prefix=str(place.folder / "text" / "own"), vocab_size=300, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    train = [files("train"), {"files": {"en": "train.en", "fr": "train.de"}}]
    changes: dict[str, Any] = {"data__train": train, "data__valid": 20, "data__test": {}}
    config = place.config("", data__directions=["de-en", "en-fr"], tokenizer__model="own.model", **changes)
    dry_run(config, report=place.folder / "dry", echo=lambda _: None)  # the last pair's report stays
    prepare(config, place.data, echo=place.said.append)
    dry, prepared = (
        json.loads((path / "report.json").read_bytes()) for path in (place.folder / "dry", place.data / "en-fr")
    )
    assert dry["warnings"] == prepared["warnings"] and dry["tokenizer"] == prepared["tokenizer"]
    warned = [line for line in place.said if "lacks" in line]
    assert [line.split(": ")[1:3] for line in warned] == [["de-en", "de"], ["en-fr", "fr"]]
    assert all("'\u00fc'" in line and "tokenizer.model" in line and "line " in line for line in warned)


def test_sets_too_short_for_bleu_in_the_target_language_are_in_the_warnings(place: Folder) -> None:
    place.write(short=[("Ein Wort", "One word"), ("Zwei Worte mehr", "Two words more or less")] * 5)
    for direction, languages in (("de-en", []), ("en-de", ["de"])):
        report, _ = run(place, data__direction=direction, data__test={"short": files("short")})
        keys = [line.partition(": ")[0] for line in report["warnings"] if "BLEU" in line]
        assert keys == [f"data.test.short ({language})" for language in languages]


@pytest.mark.parametrize(("code", "unsupported"), [("yi", ["language"]), ("bo", ["language", "sentences"])])
def test_steps_that_a_language_does_not_support_are_in_one_warning(
    place: Folder, code: str, unsupported: list[str]
) -> None:
    sources = {name: {"files": {"en": f"{name}.en", code: f"{name}.de"}} for name in ("train", "valid")}
    cleaned = sources["train"] | {"clean": {"drop": [*unsupported, "truncated"]}}
    changes = {"data__train": [cleaned, sources["train"]], "data__valid": sources["valid"], "data__test": {}}
    report, said = run(place, direction=f"{min('en', code)}-{max('en', code)}", **changes)
    [warning] = [line for line in report["warnings"] if "not checked" in line]
    assert f"{code}: not checked: " in warning and "py3langid" in warning and "truncated" not in warning
    assert all(reason in warning for reason in unsupported)
    assert f"warning: {warning}"[:60] in "\n".join(said)


def test_report_is_not_in_fingerprint(place: Folder) -> None:
    place.prepare()
    manifest, report = place.manifest(), DataDir(place.data).report
    assert report.is_file() and DataDir(place.data).report_page.read_bytes().startswith(b"<!DOCTYPE html>")
    assert not [name for name in manifest["files"] if "report" in name]
    report.unlink()
    assert place.corpus().fingerprint == manifest["fingerprint"] and "nothing to do" in place.prepare()
    others = {name: file for name, file in file_facts(place.data).items() if name in manifest["files"]}
    assert content_fingerprint(others) == manifest["fingerprint"]
    assert "again" in place.prepare(data__max_chars=60) and report.is_file()
    (place.data / "report.txt").write_text("mine")
    assert "contains report.txt, which prepare did not write" in place.refused(data__max_chars=70)


def test_sample_is_spread_over_corpora(place: Folder) -> None:
    report, said = run(place, 20)
    assert [corpus["read"] for corpus in report["corpora"]] == [20, 20]
    first, second = report["corpora"]
    lines = [sample["line"] for sample in first["kept_samples"]]
    assert lines == sorted(lines) and lines[0] < 60 and lines[-1] > 180
    dropped = [sample for samples in second["dropped_samples"].values() for sample in samples]
    assert len(dropped) > 2
    for pairs, samples in ((TRAIN, first["kept_samples"]), ([*BAD, *TRAIN[200:], *BAD], dropped)):
        for sample in samples:
            assert (sample["de"], sample["en"]) == tuple(text[:120] for text in pairs[sample["line"] - 1])
    assert "at most 20 pairs of each corpus were read, so most duplicates were not found" in said
    assert run(place, 20) == (report, said)
    assert place.left() == set()


@given(st.integers(1, 400), st.integers(1, 50))
def test_spread_items_have_regular_intervals(n: int, most: int) -> None:
    chosen = spread(range(n), most)
    assert len(chosen) == min(n, most)
    distances = [b - a for a, b in zip(chosen, [*chosen[1:], n], strict=True)]
    assert chosen[0] == 0 and min(distances) >= 1 and max(distances) <= 4 * n // most + 1


@pytest.mark.parametrize(
    ("path", "written"),
    [("new/a.html", ["a.html"]), ("a.json", ["a.json"]), ("new", ["report.html", "report.json"])],
)
def test_report_is_written_to_given_path(place: Folder, path: str, written: list[str]) -> None:
    target = place.folder / "reports" / path
    said: list[str] = []
    dry_run(place.config(), 5, target, said.append)
    assert sorted(each.name for each in (target if len(written) > 1 else target.parent).iterdir()) == written
    assert said[-1] == f"wrote {target}"
    with pytest.raises(DataError, match=r"train\.de/x\.html: cannot be written"):
        dry_run(place.config(), 5, place.folder / "text" / "train.de" / "x.html", said.append)


def test_dry_run_command_writes_no_files(place: Folder, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    Path("c.yaml").write_text(json.dumps(place.config().model_dump(mode="json")), encoding="utf-8")
    before = set(Path().rglob("*"))
    for options, status, said in (
        (["--sample", "7"], 0, "at most 7 pairs"),
        (["--dry-run"], 0, "split "),
        (["--dry-run", "--data", "x"], 2, "nmt: --data: not available in a dry run\n"),
        (["--report", "x"], 2, "--report: needs --dry-run"),
    ):
        result = nmt("prepare", "--config", "c.yaml", *options)
        assert result.status == status and said in result.out + result.err
    assert set(Path().rglob("*")) == before
