"""Tests of the worker: batching, the order of requests, failures, and stopping."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nmt.serve.limits import Refusal
from nmt.serve.metrics import Metrics
from nmt.serve.worker import ALIGNMENT_COST, LONG_COST, Job, Worker
from nmt.translate.types import Line, Options
from served import MadeUp
from waiting import until


class Stage:
    """A worker that can be kept busy while jobs are queued, with its direction and metrics."""

    def __init__(self) -> None:
        self.direction, self.metrics = MadeUp("de", "en"), Metrics()
        self.worker = Worker(self.metrics)
        self.finished: list[str] = []
        self.worker.start()

    def job(self, *lines: str, seconds: float = 60.0, n_best: int = 1, align: bool = False, **settings: object) -> Job:
        search = self.direction.config.search.model_copy(update=settings)
        how = Options(search, n_best, align)
        of_job = [Line(line) for line in lines]
        job = Job(self.direction, how, of_job, self.direction.costs(of_job, 0, how), time.monotonic() + seconds)
        job.future.add_done_callback(lambda _: self.finished.append(lines[0]))
        return job

    def submit(self, *jobs: Job) -> None:
        for job in jobs:
            self.worker.submit(job)

    def hold(self) -> None:
        """Keep the worker busy until `release` is called."""
        self.direction.gate.clear()
        self.worker.submit(self.job("wait"))
        until(lambda: self.direction.batches and self.direction.batches[-1] == ["wait"])
        self.direction.batches.clear()

    def submit_together(self, *jobs: Job) -> None:
        """Submit jobs while the worker is busy, so that it finds all of them."""
        self.hold()
        self.submit(*jobs)
        self.release()

    def release(self) -> None:
        self.direction.gate.set()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.release()
    stage.worker.close()


def refusal(job: Job) -> Refusal:
    """Return why a job was refused."""
    with pytest.raises(Refusal) as refused:
        job.future.result(30)
    return refused.value


def texts(job: Job) -> list[str]:
    return [best.text for best, *_ in job.future.result(30)]


@pytest.mark.parametrize("cost", [230, 1000])
def test_lines_in_context_are_one_batch_that_begins_again_after_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    for limit, value in {"LONG_COST": cost, "LEAST_COST": cost, "ROUND_SECONDS": 0.0}.items():
        monkeypatch.setattr(f"nmt.serve.worker.{limit}", value)
    jobs = [stage.job(*lines, context=1) for lines in (["a"], ["b", "ZeroDivisionError"], ["c", "d" * 20])]
    stage.submit_together(*jobs)
    assert texts(jobs[2]) == ["de>en: c", f"de>en: {'d' * 20}"]
    assert texts(jobs[0]) == ["de>en: a"]
    refusal(jobs[1])
    for own in (["b", "ZeroDivisionError"], ["c", "d" * 20]):
        containing = [batch for batch in stage.direction.batches if not {*own}.isdisjoint(batch)]
        assert containing and all("".join(own) in "".join(batch) for batch in containing)
    n_failed = sum("ZeroDivisionError" in batch for batch in stage.direction.batches)
    assert n_failed == (2 if cost == 1000 else 1), "it is tried again alone"


def test_waiting_lines_form_one_batch(stage: Stage) -> None:
    stage.hold()
    jobs = [stage.job(f"line {i}") for i in range(20)]
    stage.submit(*jobs)
    assert "nmt_queue_requests 21" in stage.metrics.text()
    stage.release()
    assert [texts(job) for job in jobs] == [[f"de>en: line {i}"] for i in range(20)]
    assert sorted(stage.direction.batches[0]) == sorted(f"line {i}" for i in range(20))
    until(lambda: "nmt_batch_pieces_sum 41" in stage.metrics.text())
    assert "nmt_queue_requests 0" in stage.metrics.text() and "nmt_queue_seconds_count 21" in stage.metrics.text()


def test_jobs_with_different_settings_or_sampling_share_no_batch(stage: Stage) -> None:
    jobs = [stage.job("a"), stage.job("b", n_best=2), stage.job("c"), *(stage.job(x, sample=True) for x in "de")]
    stage.submit_together(*jobs)
    assert [len(job.future.result(30)[0]) for job in jobs] == [1, 2, 1, 1, 1]
    assert sorted(stage.direction.batches) == [["a", "c"], ["b"], ["d"], ["e"]]


def test_short_requests_overtake_long_ones(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.serve.worker.ROUND_SECONDS", 0)
    monkeypatch.setattr("nmt.serve.worker.LEAST_COST", 5000)
    long, other = stage.job(*["long " * 80] * 60), stage.job(*["more " * 80] * 60)
    short = [stage.job(f"short {i}") for i in range(30)]
    stage.submit_together(long, other, *short)
    assert len(texts(long)) == len(texts(other)) == 60
    assert set(stage.finished[1:31]) == {f"short {i}" for i in range(30)}
    assert max(sum(map(len, batch)) for batch in stage.direction.batches) <= 5000
    first = stage.direction.batches[0]
    assert all(line.startswith("short") for line in first[:30])  # the shortest requests are answered first
    assert sum(line.startswith("long") for line in first) == 2  # a quarter of the round is for the oldest request


@pytest.mark.parametrize("n_best", [1, 4])
def test_round_has_fewer_lines_if_they_are_aligned(stage: Stage, monkeypatch: pytest.MonkeyPatch, n_best: int) -> None:
    monkeypatch.setattr("nmt.serve.worker.ROUND_SECONDS", 0)
    monkeypatch.setattr("nmt.serve.worker.LEAST_COST", 101 * 20)
    jobs = [stage.job(*"abcdefghijklmnopqrst", n_best=n_best, align=align) for align in (False, True)]
    for job in jobs:
        stage.submit(job)
        job.future.result(30)
    plain, *aligned = stage.direction.batches
    assert len(plain) == 20
    assert len(aligned[0]) == 101 * 20 // (101 + ALIGNMENT_COST * (1 + n_best))
    assert sum(map(len, aligned)) == 20


def test_long_line_does_not_delay_short_ones(stage: Stage) -> None:
    long = stage.job("wait", "x" * (2 * LONG_COST))
    stage.direction.gate.clear()
    stage.worker.submit(long)
    until(lambda: stage.direction.batches)
    stage.submit(short := stage.job("short"))
    assert texts(short) == ["de>en: short"] and not long.future.done()
    stage.release()
    assert len(texts(long)) == 2


@pytest.mark.parametrize("name", ["ZeroDivisionError", "SystemExit", "MemoryError"])
def test_exception_fails_only_its_own_request(stage: Stage, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [stage.job("a"), stage.job("b", name, "c"), stage.job("d"), stage.job("z" * 99)]  # the long job is retried
    stage.submit_together(*jobs)
    assert refusal(jobs[1]).status_code == 500
    assert [texts(jobs[i]) for i in (0, 2, 3)] == [["de>en: a"], ["de>en: d"], [f"de>en: {'z' * 99}"]]
    assert f'nmt_failures_total{{exception="{name}"}} 1.0' in stage.metrics.text()
    said = capsys.readouterr().err
    assert f"{name} at " in said and "about" not in said  # messages may quote texts
    assert "nmt_queue_seconds_count 5" in stage.metrics.text()  # each job is counted once, even if it is retried


def test_late_and_cancelled_requests_are_not_translated(stage: Stage) -> None:
    stage.hold()
    late, left, kept = stage.job("late", seconds=-1), stage.job("left"), stage.job("kept")
    stage.submit(late, left, kept)
    left.future.cancel()
    stage.release()
    assert texts(kept) == ["de>en: kept"]
    assert refusal(late).status_code == 504
    assert stage.direction.batches == [["kept"]]


def test_close_translates_waiting_jobs(stage: Stage) -> None:
    stage.hold()
    jobs = [stage.job(str(i)) for i in range(5)]
    stage.submit(*jobs)
    closing = threading.Thread(target=stage.worker.close)
    closing.start()
    stage.release()
    closing.join(30)
    assert all(job.future.done() for job in jobs) and not closing.is_alive()


# --- stopping -----------------------------------------------------------------------------------


def test_search_stops_after_disconnect(stage: Stage) -> None:
    left, other = stage.job("endless"), stage.job("other")
    stage.worker.submit(left)
    until(lambda: stage.direction.batches == [["endless"]])
    stage.worker.submit(other)
    left.future.cancel()
    assert texts(other) == ["de>en: other"]
    assert stage.direction.batches == [["endless"], ["other"]]  # it was not retried
    assert "nmt_failures_total{" not in stage.metrics.text()


def test_late_search_times_out(stage: Stage) -> None:
    late, other = stage.job("endless", seconds=0.05), stage.job("other")
    stage.submit(late, other)
    assert refusal(late).status_code == 504
    assert texts(other) == ["de>en: other"]
    stage.worker.close()
    assert stage.worker._waiting == [] and "nmt_failures_total{" not in stage.metrics.text()


def test_close_abandons_hanging_search(stage: Stage) -> None:
    endless, behind = stage.job("endless"), stage.job("behind")
    stage.worker.submit(endless)
    until(lambda: stage.direction.batches)
    stage.worker.submit(behind)
    assert not stage.worker.close(0.05)
    for job in (endless, behind):
        assert refusal(job).status_code == 503 and "Retry-After" in refusal(job).headers
    for thread in stage.worker._serving:  # the threads end, since the search was stopped
        thread.join(30)
        assert not thread.is_alive()


def test_closed_worker_rejects_jobs(stage: Stage) -> None:
    assert stage.worker.close()
    with pytest.raises(Refusal, match="shutting down"):
        stage.submit(stage.job("a"))
    waiting = Worker(Metrics())  # never started
    job = stage.job("b")
    waiting.submit(job)
    waiting.close()
    assert isinstance(job.future.exception(0), Refusal)
