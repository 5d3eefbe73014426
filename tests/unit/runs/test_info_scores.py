"""Reading and writing of scores.jsonl, with damage and full disks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.info import EnsembleMember, add_scores, read_scores
from scored_run import record


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_added_score_is_read(run: RunDir, capfd: pytest.CaptureFixture[str]) -> None:
    assert read_scores(run) == []
    member = EnsembleMember(run="runs/a", step=7, weights="ema")
    records = [
        record(averaged=[200, 300, 400], weights="average"),
        record("zwölf", notes=["lowercased: not comparable"]),
        record(step=None, weights=None, ensemble=[member, member]),
    ]
    for each in records:
        add_scores(run, each)
    assert read_scores(run) == records
    assert [each.is_test for each in [*records, record("valid")]] == [True, True, False, False]
    assert capfd.readouterr().err == ""
    first, *_ = [json.loads(line) for line in run.scores.read_text().splitlines()]
    assert first.keys() == {
        "date", "nmt", "split", "direction", "lines", "step", "weights", "averaged", "ensemble", "search", "precision",
        "scores", "notes", "data", "corpus", "text",
    }  # fmt: skip


def test_invalid_records_are_skipped_and_counted(run: RunDir, capfd: pytest.CaptureFixture[str]) -> None:
    good = record().model_dump_json().encode()
    later = good.replace(b'"split"', b'"a key of a later version": [1], "split"', 1)
    bad = [
        b"\xff\xfe\x00", b"17", b"null", b"[1, 2]", b"{}", b"[" * 50_000, good[:-9],
        good.replace(b"31.25", b"NaN"), good.replace(b"31.25", b"1e300"), good.replace(b"400", b'"400"'),
        good.replace(b"2026-03-04T", b"\\u001b[31m"), good.replace(b'"raw"', b'"cooked"'),
    ]  # fmt: skip
    assert len({*bad, good}) == len(bad) + 1
    run.scores.write_bytes(b"\n".join([b"", good, *bad, b"  ", later]))
    assert read_scores(run) == [record(), record()]
    told = capfd.readouterr().err
    assert f"{run.scores}: {len(bad)} invalid lines are skipped, the first is line 3" in told
    run.scores.write_bytes(good + b"\nx")
    assert read_scores(run) == [record()]
    assert "invalid lines are skipped, the first is line 2" in capfd.readouterr().err


def test_read_only_run_raises(run: RunDir, capfd: pytest.CaptureFixture[str]) -> None:
    add_scores(RunDir(run.path / "gone"), record())
    assert capfd.readouterr().err == (
        f"nmt: {run.path}/gone/scores.jsonl: cannot be written: No such file or directory; the scores of test are not "
        "recorded\n"
    )
    victim = run.path / "victim"
    victim.write_text("kept")
    run.scores.symlink_to(victim)
    add_scores(run, record())
    assert "scores.jsonl: a symbolic link, and nothing is written through links" in capfd.readouterr().err
    assert victim.read_text() == "kept"
    run.scores.unlink()
    run.scores.mkdir()
    with pytest.raises(CheckpointError, match=r"scores\.jsonl"):
        read_scores(run)


def test_score_line_is_complete_or_absent_on_full_disk(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    add_scores(run, record())
    before, write = run.scores.read_bytes(), os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:20]))
        add_scores(run, record("other"))
    assert run.scores.read_bytes() == before
    assert "cannot be written: No space left on device; the scores of other are not recorded" in capfd.readouterr().err
