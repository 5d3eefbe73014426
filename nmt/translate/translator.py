"""The translator: lines -> sentences -> batches -> search -> translations, in the order of the lines.

Training's validation, `nmt translate` and `nmt evaluate` all call `Translator.translate_lines`; programs call
`Translator.translate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, overload

import torch

from nmt.config import Config, ModelConfig, SearchConfig
from nmt.config.load import check_config
from nmt.console import Progress, say
from nmt.data.batching import sent
from nmt.errors import ConfigError, DataError
from nmt.model.device import pick_device
from nmt.model.masks import Padded
from nmt.model.precision import autocast, for_inference
from nmt.model.transformer import Transformer
from nmt.runs.model import Origin, choose_precision, open_saved
from nmt.search.constrained import Constraints
from nmt.search.forced import ForcedDecoder
from nmt.search.phrases import room, width, with_phrases, word_parts
from nmt.search.rules import Rules
from nmt.search.search import search as search_best
from nmt.search.step import Ensemble, Hypothesis, StepModel, TransformerStep, length_penalty, padded
from nmt.text.glossary import AnyGlossary, Glossary
from nmt.text.split import join, split
from nmt.text.tokenizer import EOS, N_SPECIAL, PAD, Tokenizers, is_blank
from nmt.translate.mbr import choose
from nmt.translate.score import Scored, score_pairs
from nmt.translate.types import (
    BLANK,
    NO_TERMS,
    Line,
    Part,
    Sentence,
    Translation,
    check_search,
    make_batches,
    n_wanted_of,
    phrases_of,
    takes_terms,
)
from nmt.translate.workers import run_all

WINDOW = 4096
"""Lines that are sorted by length together."""

FARTHEST = 4
"""Of a sentence so many times `data.max_pieces` is read: more would take hours or all memory, and is no sentence."""


PARTS = 2**24
"""More than a line has."""


class Translator:
    """Everything that translating needs."""

    origin: Origin | None = None
    """Which weights these are, if they were loaded from a run."""
    others: Sequence[Origin] = ()
    """The same of the further runs of an ensemble."""

    def __init__(
        self,
        models: Transformer | Sequence[Transformer],
        tokenizers: Tokenizers,
        config: Config,
        device: torch.device,
        precision: str,
    ) -> None:
        """`models` are on `device`, one or an ensemble; matrix products run in `precision`: float32, bf16 or fp16."""
        given = [models] if isinstance(models, Transformer) else list(models)
        self.models = [for_inference(model, precision) for model in given]
        self.tokenizers = tokenizers
        self.config = config
        self.device = device
        self.precision = precision
        self._src = tokenizers[config.data.src]
        self._tgt = tokenizers[config.data.tgt]
        self._banned = torch.tensor([i for i in range(N_SPECIAL) if i != EOS], device=device)
        known = [model.max_positions for model in self.models] or [_positions_of(config.model)]
        self._positions = min((each for each in known if each is not None), default=None)
        # one position is for the end of sentence
        self._longest = self._positions - 1 if self._positions is not None else FARTHEST * config.data.max_pieces

    @classmethod
    def load(
        cls,
        path: Path | str | Sequence[Path | str],
        checkpoint: str = "best",
        weights: str = "auto",
        device: str = "auto",
        precision: str = "auto",
    ) -> Translator:
        """The translator of a run or of an exported folder, or the ensemble of several, the first of which gives the
        settings.

        checkpoint: best, last or a step; weights: auto, raw, ema or average; device: auto, cpu or cuda; precision:
        auto, float32, bf16 or fp16. Raises CheckpointError if there is nothing such or it is damaged, DataError for
        its tokenizer, ConfigError if the runs do not go together.
        """
        paths = [path] if isinstance(path, (Path, str)) else path
        first, *others = [open_saved(Path(each), checkpoint, weights) for each in paths]
        for other in others:
            other.check_goes_with(first)
        place = pick_device(device)
        chosen = choose_precision(first, precision, place)
        models = [saved.model().to(place) for saved in (first, *others)]
        translator = cls(models, first.tokenizers, first.config, place, chosen)
        translator.origin, translator.others = first.origin, [other.origin for other in others]
        for note in filter(None, (saved.note for saved in (first, *others))):
            say(note)
        return translator

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int,
        glossary: AnyGlossary | None = None,
        **settings: object,
    ) -> list[list[str]]: ...
    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: None = None,
        glossary: AnyGlossary | None = None,
        **settings: object,
    ) -> list[str]: ...
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int | None = None,
        glossary: AnyGlossary | None = None,
        **settings: object,
    ) -> list[str] | list[list[str]]:
        """The translation of each text, as `nmt translate` gives it; with `n_best` a list for each text, of up to so
        many translations, best first.

        glossary: terms with their translations, or the file that has them. `settings` are search settings by name,
        such as beam=1. Raises ConfigError for settings that do not exist or do not go together, DataError for a
        glossary.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts, found one text: give [text]")
        search = self.search_settings(settings)
        known = Glossary.of(glossary) if glossary is not None else None
        n_wanted = 1 if n_best is None else n_best
        self.check(search, n_wanted, has_terms=known is not None)
        found = self.translate_lines([Line(text, glossary=known) for text in texts], search, n_wanted)
        if n_best is None:
            return [best.text for best, *_ in found]
        return [[each.text for each in translations] for translations in found]

    def search_settings(self, settings: Mapping[str, object]) -> SearchConfig:
        """The configuration's search settings with these changed. Raises ConfigError."""
        dumped = self.config.model_dump()
        return check_config(dumped | {"search": dumped["search"] | dict(settings)}, "translate").search

    def forced_decoder(self, search: SearchConfig | None = None) -> ForcedDecoder:
        """The same models, told what to say: for scores and for attention."""
        size = (search or self.config.search).batch_size(self.device.type)
        return ForcedDecoder(self.models, self.device, self.precision, size.tokens)

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        search: SearchConfig | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Scored]:
        """How probable each target line is as the translation of its source line, in order. `progress` is told of
        pairs as they are scored, which is in another order."""
        search = search or self.config.search
        decoder = self.forced_decoder(search)
        return score_pairs(decoder, self._src, self._tgt, search, self._longest, pairs, progress=progress)

    def translate_lines(
        self,
        lines: Iterable[Line | str],
        search: SearchConfig | None = None,
        n_best: int = 1,
        progress: Progress | None = None,
    ) -> Iterator[list[Translation]]:
        """For each line, in order, up to `n_best` translations, best first; a blank line has one, which is blank.

        Lines are read ahead by the window and sorted by length; a line is given out as soon as all before it are. A
        translation has no line feed in it. `search` is by default the configuration's. `progress` is told of lines as
        they are searched, which is in another order. The models are left in the mode (training or evaluation) they
        were in. Raises ConfigError if the settings do not go together.
        """
        search = search or self.config.search
        self.check(search, n_best)
        return self._windows(iter(lines), search, n_best, progress)

    def check(self, search: SearchConfig, n_best: int, has_terms: bool = False) -> None:
        """Raise ConfigError if this translator cannot do what is asked of it."""
        check_search(search, n_best)
        if has_terms and not takes_terms(search):
            raise ConfigError([NO_TERMS])

    def _windows(
        self, lines: Iterator[Line | str], search: SearchConfig, n_best: int, progress: Progress | None
    ) -> Iterator[list[Translation]]:
        number = 0
        while window := list(islice(lines, WINDOW)):
            yield from self.translate_window(window, search, n_best, number, progress)
            number += len(window)

    def translate_window(
        self,
        window: Sequence[Line | str],
        search: SearchConfig,
        n_best: int = 1,
        first: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[list[Translation]]:
        """As `translate_lines`, for lines that are sorted by length together; `first` is the number of the first."""
        lines = [Line(line) if isinstance(line, str) else line for line in window]
        of_lines = self._sentences(lines, search, first)
        n_wanted = n_wanted_of(search, n_best)
        sentences = [sentence for of_line in of_lines for sentence in of_line]
        batches = make_batches(sentences, search, n_wanted, search.batch_size(self.device.type))
        results = run_all(
            lambda rows: self._search([sentences[row] for row in rows], search, n_wanted),
            batches,
            self.device,
            self._context,
        )
        found: dict[int, list[Hypothesis]] = {i: [] for i, sentence in enumerate(sentences) if not sentence.src_ids}
        waiting = iter(batches)
        lines_per_sentence = len(lines) / max(len(sentences) - len(found), 1)
        modes = [(model, model.training) for model in self.models]
        for model in self.models:
            model.eval()
        try:
            start = 0
            for of_line in of_lines:
                places = range(start, start + len(of_line))
                start = places.stop
                while not all(place in found for place in places):
                    rows = next(waiting)
                    found |= zip(rows, next(results), strict=True)
                    if progress is not None:
                        progress.add(len(rows) * lines_per_sentence)
                yield self._translations(of_line, [found.pop(place) for place in places], search, n_best)
        finally:
            results.close()
            for model, was_training in modes:
                model.train(was_training)

    def _sentences(self, lines: Sequence[Line], search: SearchConfig, first: int) -> list[list[Sentence]]:
        """The sentences of each line: several if it is split, and none with ids if it is blank."""
        longest = min(self._longest, self.config.data.max_pieces)
        stays_whole = 0 if search.split == "always" else longest
        ids = iter(self._src.encode_all(["" if is_blank(line.text) else line.text for line in lines]))
        result = []
        for number, line in enumerate(lines, start=first):
            whole = next(ids)
            is_long = search.split != "never" and len(whole) > stays_whole
            if is_long and not line.terms:
                parts = split(line.text, self._n_pieces, longest, stays_whole)
                of_parts = self._src.encode_all([text for text, _ in parts])
            else:
                parts, of_parts = [(line.text, "")], [whole]
            result.append(
                [
                    Sentence(
                        text=text,
                        separator=separator,
                        src_ids=part[: self._longest],
                        key=number * PARTS + place,
                        prefix=self._tgt.encode(line.prefix.rstrip()) if line.prefix and not place else (),
                        phrases=phrases,
                        n_ordered=n_ordered,
                        cut=len(part) > self._longest,
                        whole=is_long and len(parts) == 1,
                    )
                    for place, ((text, separator), part) in enumerate(zip(parts, of_parts, strict=True))
                    for phrases, n_ordered in [phrases_of(line, text, search, self._tgt)]
                ]
            )
        return result

    def _n_pieces(self, texts: list[str]) -> list[int]:
        return [len(each) for each in self._src.encode_all(texts)]

    @contextmanager
    def _context(self) -> Iterator[None]:
        with torch.inference_mode(), autocast(self.precision, self.device):
            yield

    @cached_property
    def _word_parts(self) -> torch.Tensor:
        return word_parts(self._tgt).to(self.device)

    def _search(self, sentences: Sequence[Sentence], search: SearchConfig, n_wanted: int) -> list[list[Hypothesis]]:
        src = sent(padded([[*sentence.src_ids, EOS] for sentence in sentences]), self.device)  # (B, S)
        mask = src != PAD
        steps: list[StepModel] = [
            TransformerStep(model, model.encode(src, Padded(mask)), mask, keep_attention=search.coverage_penalty > 0)
            for model in self.models
        ]
        limits = torch.tensor([self._limit(sentence, search) for sentence in sentences])
        prefix = sent(padded([sentence.prefix for sentence in sentences]), self.device)
        rules = Rules(
            self._banned, limits, search.min_length, search.no_repeat_ngram, prefix if prefix.size(1) else None
        )
        constraints = None
        if any(sentence.phrases for sentence in sentences):
            phrases, n_ordered = zip(*((sentence.phrases, sentence.n_ordered) for sentence in sentences), strict=True)
            constraints = Constraints(phrases, limits, self._word_parts, n_ordered, self.device)
            search = with_phrases(search, max(width(sentence.phrases, search.beam) for sentence in sentences))
        keys = [sentence.key for sentence in sentences]
        step = steps[0] if len(steps) == 1 else Ensemble(steps)
        return search_best(step, rules, search, keys, n_wanted, constraints)

    def _limit(self, sentence: Sentence, search: SearchConfig) -> int:
        """The most pieces of a translation, end of sentence counted."""
        limit = int(search.max_length_ratio * len(sentence.src_ids) + search.max_length_offset)
        n_asked = len(sentence.prefix) + room(sentence.phrases)
        limit = max(limit + n_asked, search.min_length + 1)
        if search.max_length:
            limit = max(min(limit, search.max_length + 1), n_asked + 1)
        if self._positions is None:
            return limit
        if n_asked >= self._positions:
            raise DataError(
                f"line {sentence.key // PARTS + 1}: its prefix and terms have {n_asked} pieces, more than the model "
                f"has positions for (model.max_positions = {self._positions})"
            )
        return min(limit, self._positions)

    def _translations(
        self,
        sentences: Sequence[Sentence],
        found: Sequence[Sequence[Hypothesis]],
        search: SearchConfig,
        n_best: int,
    ) -> list[Translation]:
        """The translations of a line from those of its sentences: the best of each joined, then the second best …"""
        if not any(found):
            return [BLANK]
        if search.mbr != "none":  # of translations that are equally good, that with the better score
            found = [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]
            found = [[self._least_risk(each, search.mbr)] if each else [] for each in found]
        n_ranks = min(n_best, max(map(len, found)))
        translations = [
            self._translation(sentences, [each[min(rank, len(each) - 1)] if each else None for each in found], search)
            for rank in range(n_ranks)
        ]
        if search.sample:
            return translations
        return sorted(translations, key=lambda each: -each.score)  # joined, they may be in another order

    def _translation(
        self, sentences: Sequence[Sentence], found: Sequence[Hypothesis | None], search: SearchConfig
    ) -> Translation:
        pairs = [(sentence, each) for sentence, each in zip(sentences, found, strict=True) if each is not None]
        log_prob = sum(each.log_prob for _, each in pairs)
        n_pieces = sum(len(each.ids) + 1 for _, each in pairs)
        is_as_searched = len(pairs) == 1 and not pairs[0][0].phrases
        texts = ["" if each is None else self._tgt.decode(each.ids) for each in found]
        return Translation(
            text=join([(sentence.text, sentence.separator) for sentence in sentences], texts),
            score=pairs[0][1].score if is_as_searched else log_prob / length_penalty(n_pieces, search),
            log_prob=log_prob,
            finished=all(each.finished for _, each in pairs),
            cut=any(sentence.cut for sentence in sentences),
            whole=any(sentence.whole for sentence in sentences),
            parts=tuple(Part(sentence.src_ids, each.ids) for sentence, each in pairs),
        )

    def _least_risk(self, found: Sequence[Hypothesis], metric: Literal["chrf", "bleu"]) -> Hypothesis:
        return found[choose([self._tgt.decode(each.ids) for each in found], metric, tgt_lang=self.config.data.tgt)]


def _positions_of(config: ModelConfig) -> int | None:
    return config.max_positions if config.positions == "learned" else None
