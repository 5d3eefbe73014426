"""Tests of batches in several threads: order of results, errors, and cleanup."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from nmt.translate.search import THREAD_NAME, in_threads
from tiny_run import BEAM, PLAIN, make, tiny_config, tiny_tokenizer

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_several_threads() -> None:
    meet, entered = threading.Barrier(4, timeout=30), []

    def work(job: int) -> tuple[int, int]:
        entered.append(threading.get_ident())
        assert threading.current_thread().name.startswith(THREAD_NAME)
        if job < 4:
            meet.wait()  # the first four jobs end only if all four run at once
        return job * job, torch.get_num_threads()

    found = list(in_threads(work, range(20), CPU))
    assert found == [(job * job, 1) for job in range(20)], "each job gets its share of the threads"
    assert len(set(entered)) == 4
    assert threading.get_ident() not in entered
    assert torch.get_num_threads() == 4


def test_job_error_is_raised_in_caller() -> None:
    def work(job: int) -> int:
        if job == 5:
            raise ValueError("number 5")
        return job

    found, before = in_threads(work, range(100), CPU), []
    with pytest.raises(ValueError, match="number 5"):
        for result in found:
            before.append(result)
    assert before == [0, 1, 2, 3, 4], "earlier results are yielded before the error"
    assert not any(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate())


def test_no_job_starts_after_close() -> None:
    begun = []

    def work(job: int) -> None:
        begun.append(job)
        time.sleep(0.01)

    found = in_threads(work, range(200), CPU)
    next(found)
    found.close()
    n_begun = len(begun)
    assert not any(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate())
    assert len(begun) == n_begun < 200


@pytest.mark.parametrize("n_threads", [1, 4])
def test_inference_mode_is_disabled_between_lines(n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    for _ in make(tiny_tokenizer(), tiny_config()).translate_lines(PLAIN, BEAM.model_copy(update={"batch_tokens": 20})):
        assert not torch.is_inference_mode_enabled()
