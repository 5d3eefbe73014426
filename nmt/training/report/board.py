"""TensorBoard: curves, sample translations and an attention plot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch.utils.tensorboard import SummaryWriter

from nmt.errors import UnsafeFileError
from nmt.files.read import refuse_links

SHOWN_PIECES = 40  # of each side of the attention plot


class Board:
    """Writes a TensorBoard log. If that fails, it warns, and tries again at the next save."""

    def __init__(self, path: Path, purge_step: int, say: Callable[[str], None]) -> None:
        """From step `purge_step` on, what was written before the run was resumed is hidden."""
        self._path, self._say = path, say
        self._purge_step: int | None = purge_step
        self._writer: SummaryWriter | None = None
        self._in_trouble = False
        self._hook, threading.excepthook = threading.excepthook, self._hush
        self.flush()

    def _hush(self, failure: threading.ExceptHookArgs) -> None:
        """Suppress errors of TensorBoard's writer thread; the next call raises and reports them."""
        if not (isinstance(failure.exc_value, OSError) and type(failure.thread).__module__.startswith("tensorboard.")):
            self._hook(failure)

    def scalars(self, record: Mapping[str, object]) -> None:
        """Write the numbers of a record."""

        def write(writer: SummaryWriter) -> None:
            for name, value in record.items():
                if isinstance(value, (int, float)) and name not in ("step", "kind"):
                    writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])

        self._do(write)

    def samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Write source, reference and translation of a few development sentences, as text."""
        table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
        text = f"| source | reference | translation |\n|---|---|---|\n{table}"
        self._do(lambda writer: writer.add_text("valid/translations", text, step))

    def attention(
        self, step: int, weights: npt.NDArray[np.float32], src_pieces: Sequence[str], tgt_pieces: Sequence[str]
    ) -> None:
        """Plot attention weights (T, S), a row for each target piece; of a long sentence only the start."""
        import matplotlib  # not at the start of a run, which it would slow down

        from nmt.plots.attention import any_script, draw_attention

        matplotlib.use("Agg")
        title = f"Attention, mean of the heads of the layer before the last, step {step}"
        figure = draw_attention(src_pieces, tgt_pieces, weights, title, SHOWN_PIECES)
        with any_script():
            self._do(lambda writer: writer.add_figure("valid/attention", figure, step))

    def flush(self) -> None:
        """Flush to disk; after a failure, start writing again from here."""
        self._in_trouble = False
        self._do(lambda writer: writer.flush())
        if not self._in_trouble:
            self._purge_step = None  # from here on there is nothing older

    def close(self) -> None:
        """Flush and close."""
        self._do(lambda writer: writer.close())
        threading.excepthook = self._hook

    def _do(self, action: Callable[[SummaryWriter], None]) -> None:
        if self._in_trouble:
            return
        try:
            if self._writer is None:
                refuse_links([self._path])
                self._writer = SummaryWriter(str(self._path), purge_step=self._purge_step)
            action(self._writer)
        except (OSError, UnsafeFileError) as error:  # training is worth more than its curves
            self._writer, self._in_trouble = None, True
            reason = f"cannot be written: {error.strerror}" if isinstance(error, OSError) else "is now a symbolic link"
            self._say(
                f"warning: {self._path}: {reason}; training continues, and TensorBoard will "
                "lack what comes until the next save (log.jsonl will not)"
            )
