"""Tests of the search of several sentences at once, and of batches in several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest
import torch

from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis
from nmt.text.ids import FIRST_RESERVED, SEPARATOR
from nmt.translate.memory import Match
from nmt.translate.search import THREAD_NAME, Hypotheses, JointSearch, in_order, in_threads
from nmt.translate.types import Line, Sentence
from tiny_run import BEAM, PLAIN, make, tiny_config, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
A, B, C, D = 300, 301, 302, 303


class Copying:
    """Translates each sentence into itself after the given ids, and remembers what it was asked."""

    def __init__(self, lost: int | None = None, max_positions: int | None = None) -> None:
        self.asked: list[list[Sentence]] = []
        self.lost = lost  # a source id that is not translated if there are several sentences
        self.max_positions = max_positions

    def search(self, sentences: Sequence[Sentence], *_: object) -> Generator[tuple[list[int], Hypotheses]]:
        self.asked.append([*sentences])
        for i, sentence in enumerate(sentences):
            if not sentence.src_ids:
                continue
            ids = [*sentence.src_ids]
            if SEPARATOR in ids and self.lost in ids:
                place = ids.index(self.lost)
                del ids[place : place + 2]
            assert ids[: len(sentence.given)] == [*sentence.given]
            own = ids[len(sentence.given) :]
            yield [i], [[Hypothesis(own, -float(len(own) + 1), -1.0, True)]]


def sentence(*ids: int, **more: object) -> Sentence:
    return Sentence("x", " ", ids, 0, 10, **more)  # type: ignore[arg-type]


def found(
    engine: Copying, by_line: list[list[Sentence]], first: Sequence[int] = (), max_pieces: int = 100, **settings: object
) -> list[list[int]]:
    joint = JointSearch(engine, TOKENIZER, TOKENIZER, max_pieces, SearchConfig(**settings))  # type: ignore[arg-type]
    lines = [Line("x", is_first=i in first) for i in range(len(by_line))]
    sentences = [each for of_line in by_line for each in of_line]
    hypotheses = in_order(joint.search(lines, by_line), sentences)
    return [[*of_sentence[0].ids] if of_sentence else [] for of_sentence in hypotheses]


def sources(engine: Copying) -> list[list[list[int]]]:
    return [[[*each.src_ids] for each in asked] for asked in engine.asked]


BLANK = sentence()


def test_sentences_of_line_are_one_source_and_their_translation_is_divided() -> None:
    engine = Copying()
    assert found(engine, [[sentence(A), sentence(B)], [BLANK], [sentence(C)]]) == [[A], [B], [], [C]]
    assert sources(engine) == [[[A, SEPARATOR, B], [C]]]
    assert [(each.max_length, each.n_joined) for each in engine.asked[0]] == [(20, 2), (10, 1)]


def test_context_and_translation_fit_the_positions() -> None:
    engine = Copying(max_positions=12)
    found(engine, [[sentence(A, A)], [sentence(B)]], context=1)
    assert engine.asked[1][0].max_length == 12 - 3


def test_log_probability_of_line_is_divided_by_length() -> None:
    joint = JointSearch(Copying(), TOKENIZER, TOKENIZER, 100, SearchConfig())  # type: ignore[arg-type]
    [(_, divided)] = joint.search([Line("x")], [[sentence(A), sentence(B, C)]])
    assert [each.log_prob for [each] in divided] == [-2.0, -3.0]


def test_tags_stay_before_joined_sources() -> None:
    tokenizer = TOKENIZER.__class__(TOKENIZER.model, tags=["to=xx"])  # type: ignore[call-arg]
    engine, tag = Copying(), tokenizer.tags["to=xx"]
    joint = JointSearch(engine, tokenizer, tokenizer, 100, SearchConfig())  # type: ignore[arg-type]
    [*joint.search([Line("x")], [[sentence(tag, A), sentence(tag, B)]])]
    assert sources(engine) == [[[tag, A, SEPARATOR, B]]]


def test_documents_share_rounds_and_translations_are_context() -> None:
    engine = Copying()
    by_line = [[sentence(A)], [sentence(B)], [sentence(C)], [BLANK], [sentence(D)], [sentence(A)]]
    assert found(engine, by_line, context=1) == [[A], [B], [C], [], [D], [A]]
    assert sources(engine) == [[[A], [D]], [[A, SEPARATOR, B], [D, SEPARATOR, A]], [[B, SEPARATOR, C]]]
    assert [each.given for each in engine.asked[1]] == [[A, SEPARATOR], [D, SEPARATOR]]
    assert {each.n_joined for asked in engine.asked for each in asked} == {1}


MARK = FIRST_RESERVED
KNOWN = TOKENIZER.decode([A])
LONG = [sentence(A, A, A), sentence(B, B, B)]


@pytest.mark.parametrize(
    ("by_line", "settings", "expected"),
    [
        # context
        ([[sentence(A)], [sentence(B, phrases=((C,),))], [sentence(D)]], {"context": 1},
         [[[A]], [[B]], [[B, SEPARATOR, D]]]),
        ([[sentence(A)], [sentence(B)]], {"first": [1], "context": 2}, [[[A], [B]]]),
        ([[sentence(A, A)], [sentence(B)], [sentence(C)]], {"context": 3, "max_pieces": 5},
         [[[A, A]], [[A, A, SEPARATOR, B]], [[B, SEPARATOR, C]]]),
        ([[sentence(A, MARK, B)], [sentence(MARK, C)]], {"context": 1},
         [[[A, MARK, B]], [[A, MARK, B, SEPARATOR, MARK, C]]]),
        ([[Sentence(KNOWN, " ", (), 0, 0, match=Match(KNOWN, "exact"))], [sentence(B)]], {"context": 1},
         [[[]], [[*TOKENIZER.encode(KNOWN), SEPARATOR, B]]]),
        # sentences of a line
        ([LONG], {"max_pieces": 6}, [[[A, A, A]], [[B, B, B]]]),
        ([LONG], {"split": "always"}, [[[A, A, A]], [[B, B, B]]]),
        ([[sentence(A, A, A, phrases=((C,),)), LONG[1]]], {}, [[[A, A, A]], [[B, B, B]]]),
        ([[sentence(A), sentence(B)], [sentence(C)]], {"lost": A}, [[[A, SEPARATOR, B], [C]], [[A], [B]]]),
    ],
    ids=["not with a required phrase", "not across documents", "up to the maximum length", "with marks of terms",
         "match of a memory", "too long", "split always", "required phrase", "lost sentence"],
)  # fmt: skip
def test_sentences_are_searched_with_context_and_together_as_far_as_possible(
    by_line: list[list[Sentence]], settings: dict[str, Any], expected: list[list[list[int]]]
) -> None:
    engine = Copying(settings.pop("lost", None))
    assert found(engine, by_line, **settings) == [[*each.src_ids] for of_line in by_line for each in of_line]
    assert sources(engine) == expected


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
    assert len(set(entered) - {threading.get_ident()}) == len(set(entered)) == torch.get_num_threads() == 4


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
