"""Translating: lines -> batches -> search -> lines, in input order.

Training's validation, `nmt translate` and `nmt evaluate` all call `Translator.translate`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from nmt.checkpoint import assign
from nmt.config import Config, SearchConfig
from nmt.config_file import load_config
from nmt.data.sources import decode_lines, read_lines
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files import open_output
from nmt.layout import RunDir
from nmt.metadata import read_info
from nmt.model.masks import Padded
from nmt.model.precision import (
    autocast,
    device_name,
    pick_device,
    pick_float32_library,
    pick_precision,
    use_float32_library,
)
from nmt.model.transformer import Transformer
from nmt.runs import is_run
from nmt.search.beam import search as search_best
from nmt.search.step import Hypothesis, TransformerStep
from nmt.selected import choose_weights
from nmt.tokenizer import CONTROL, EOS, N_SPECIAL, PAD, Tokenizers

WINDOW = 4096
"""Lines that are sorted by length together."""

FARTHEST = 4
"""Of a line so many times `data.max_pieces` is read: more would take hours or all memory, and is no sentence."""


@dataclass(frozen=True)
class Origin:
    """The weights that translate, and why these."""

    run: Path
    step: int
    weights: str
    reason: str


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """What is ranked: log_prob divided by the length penalty."""
    log_prob: float
    """The sum over all pieces and the end of sentence (nats)."""
    finished: bool = True
    """False if it was ended by the length limit."""
    cut: bool = False
    """True if only the start of the line was read: it has more pieces than the model can make anything of."""


BLANK = Translation("", 0.0, 0.0)


class Translator:
    """Everything that translating needs."""

    origin: Origin | None = None
    """Which weights these are, if they were loaded from a run."""

    def __init__(
        self, model: Transformer, tokenizers: Tokenizers, config: Config, device: torch.device, precision: str
    ) -> None:
        """`model` is on `device`; matrix products run in `precision`: float32, bf16 or fp16."""
        self.model = model
        self.config = config
        self.device = device
        self.precision = precision
        self._src = tokenizers[config.data.src]
        self._tgt = tokenizers[config.data.tgt]
        self._banned = torch.tensor([i for i in range(N_SPECIAL) if i != EOS], device=device)
        self._positions = config.model.max_positions if config.model.positions == "learned" else None
        # one position is for the end of sentence
        self._longest = self._positions - 1 if self._positions is not None else FARTHEST * config.data.max_pieces

    @classmethod
    def load(cls, run_dir: Path, checkpoint: str = "best", weights: str = "auto", device: str = "auto") -> Translator:
        """The translator of a run. `checkpoint`: best, last or a step; `weights`: auto, raw or average; `device`: auto,
        cpu or cuda. Raises CheckpointError if there is no such run or checkpoint or it is damaged, DataError for its
        tokenizer."""
        run = RunDir(run_dir)
        if not run.config.is_file():
            raise CheckpointError(f"{run_dir}: not a run directory, it has no config.yaml; make one with nmt train")
        config = load_config(run.config)
        info, chosen = read_info(run), choose_weights(run, config.training, checkpoint, weights)
        tokenizers = Tokenizers.load(run.tokenizer, config.data.languages)
        if tokenizers.fingerprint != info["tokenizer"]:
            raise CheckpointError(f"{run.tokenizer.path}: not the tokenizer that this run was trained with")
        place = pick_device(device)
        # What was trained in half precision may be translated so, where that is fast: elsewhere a probe tells.
        is_home = info.get("device_name") == device_name(place)
        is_known = is_home or info["precision"] == "float32"
        precision = str(info["precision"]) if is_known else pick_precision("auto", place)
        library = info.get("float32_library") if is_home else None
        use_float32_library(library or pick_float32_library(precision, place))
        model = Transformer(config.model, len(tokenizers[config.data.src]), len(tokenizers[config.data.tgt]))
        assign(model, chosen.tensors, str(run_dir))
        translator = cls(model.to(place).eval(), tokenizers, config, place, precision)
        translator.origin = Origin(run_dir, chosen.step, chosen.kind, chosen.reason)
        return translator

    def translate(
        self, lines: Iterable[str], search: SearchConfig | None = None, n_best: int = 1, window: int = WINDOW
    ) -> Iterator[list[Translation]]:
        """For each line, in order, up to `n_best` translations, best first; a blank line has one, which is blank.

        `window` lines are read ahead and sorted by length; a line is given out as soon as all before it are. A
        translation has no line feed in it. `search` is by default the configuration's. The model is left in the mode
        (training or evaluation) it was in. Raises ConfigError if n_best is more than the beam.
        """
        search = search or self.config.search
        if not 1 <= n_best <= search.beam:
            raise ConfigError([f"n_best: {n_best} needs a beam of at least {n_best}, found search.beam {search.beam}"])
        return self._translate(iter(lines), search, n_best, window)

    def _translate(
        self, lines: Iterator[str], search: SearchConfig, n_best: int, window: int
    ) -> Iterator[list[Translation]]:
        while chunk := list(islice(lines, window)):
            ids = self._src.encode_all(["" if _is_blank(line) else line for line in chunk])
            found: dict[int, list[Translation]] = {i: [BLANK] for i, line in enumerate(ids) if not line}
            batches = iter(_batches([len(line) for line in ids], search.batch_tokens))
            for i in range(len(chunk)):
                while i not in found:
                    rows = next(batches)
                    translations = self._translate_batch([ids[row] for row in rows], search, n_best)
                    found |= zip(rows, translations, strict=True)
                yield found.pop(i)

    @torch.inference_mode()
    def _translate_batch(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, n_best: int
    ) -> list[list[Translation]]:
        longest = self._longest
        src = pad_sequence(
            [torch.tensor([*ids[:longest], EOS]) for ids in sources], batch_first=True, padding_value=PAD
        ).to(self.device)  # (B, S)
        limits = [int(search.max_length_ratio * len(ids[:longest]) + search.max_length_offset) for ids in sources]
        if self._positions is not None:
            limits = [min(limit, self._positions) for limit in limits]
        was_training = self.model.training
        self.model.eval()
        try:
            with autocast(self.precision, self.device):
                mask = src != PAD
                step = TransformerStep(self.model, self.model.encode(src, Padded(mask)), mask)
                found = search_best(step, torch.tensor(limits, device=self.device), search, self._banned, n_best)
        finally:
            self.model.train(was_training)
        return [
            [self._translation(hypothesis, cut=len(ids) > longest) for hypothesis in hypotheses]
            for ids, hypotheses in zip(sources, found, strict=True)
        ]

    def _translation(self, found: Hypothesis, cut: bool) -> Translation:
        return Translation(self._tgt.decode(found.ids), found.score, found.log_prob, found.finished, cut)


def _is_blank(line: str) -> bool:
    return not CONTROL.sub(" ", line).strip()  # to the tokenizer, control characters are spaces


def _batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Rows of similar lengths together: n rows of at most n * (longest + end of sentence) <= max_tokens, or one row.

    Blank rows are in none. Batches are in the order of their first rows, so that the first rows are done early.
    """
    batches: list[list[int]] = []
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lambda row: lengths[row]):
        if batches and (len(batches[-1]) + 1) * (lengths[row] + 1) <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return sorted(batches, key=min)


def newest_run(root: Path = Path("runs")) -> Path:
    """The run directory under `root` that was written to last. Raises CheckpointError if there is none."""
    runs = [RunDir(path) for path in root.glob("*") if is_run(path)]
    if not runs:
        raise CheckpointError(f"{root}: no run directory here; make one with nmt train, or name one with --run")
    return max(runs, key=_last_written).path


def _last_written(run: RunDir) -> tuple[float, str]:
    files = (run.config, run.checkpoints, run.selected)
    return max(path.stat().st_mtime for path in files if path.exists()), run.path.name


def translate_file(
    translator: Translator,
    source: Path | str,
    target: Path | str,
    search: SearchConfig | None = None,
    n_best: int = 1,
) -> None:
    """Translate the lines of a file, or of standard input (`-`), into a file or to standard output (`-`).

    Line n is the translation of line n. With `n_best` above 1 every translation has a line of four tab-separated
    columns: number of the source line (from 1), score, log-probability, translation; best first. Standard output gets
    each line as soon as it is ready, and at a terminal every line is answered at once; a file is written as F.part
    and renamed at the end. What deserves a warning is counted on standard error.
    Raises DataError if the input is missing or not UTF-8, or if the output cannot be written.
    """
    interactive = str(source) == "-" and sys.stdin is not None and sys.stdin.isatty()
    lines = _input(source)
    found = translator.translate(lines, search, n_best, window=1 if interactive else WINDOW)
    warnings = Warnings()
    with open_output(target) as out:
        for number, translations in enumerate(found, start=1):
            warnings.see(number, translations)
            for each in translations:
                row = f"{number}\t{each.score:.6f}\t{each.log_prob:.6f}\t{each.text}" if n_best > 1 else each.text
                out.write(row.encode() + b"\n")
            out.flush()
    for warning in warnings.lines():
        print(f"nmt: {warning}", file=sys.stderr)


class Warnings:
    """Counts what a user should know about the translations of a text."""

    def __init__(self) -> None:
        self.n_unfinished = 0
        self.cut: list[int] = []

    def see(self, number: int, translations: Sequence[Translation]) -> None:
        """Take note of the translations of the line with this number."""
        self.n_unfinished += not translations[0].finished
        if translations[0].cut:
            self.cut.append(number)

    def lines(self) -> list[str]:
        """A line for each kind of warning there is."""
        lines = []
        if self.n_unfinished:
            lines.append(
                f"{_count(self.n_unfinished, 'translation')} reached the greatest length "
                "(search.max_length_ratio, search.max_length_offset) and may lack an end"
            )
        if self.cut:
            numbers = ", ".join(map(str, self.cut[:10])) + (", …" if len(self.cut) > 10 else "")
            lines.append(
                f"{_count(len(self.cut), 'line')} had more pieces than the model takes (model.max_positions, or "
                f"{FARTHEST} times data.max_pieces); only the start was translated: {numbers}"
            )
        return lines


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _input(source: Path | str) -> Iterator[str]:
    if str(source) == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed; name a file with --input")
        return decode_lines(sys.stdin.buffer, "standard input")
    if not Path(source).exists():
        raise DataError(f"{source}: no such file")
    return read_lines(Path(source))
