"""Translation of a file by a language model, which continues after an interruption as recipes do."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from nmt.chat.dry_run import is_dry_run
from nmt.chat.settings import ChatOptions
from nmt.chat.teacher import ChatTeacher
from nmt.config.load import overridden
from nmt.console import Progress, amount, say
from nmt.files.read import fingerprint_of
from nmt.files.write import open_output, refuse_overwriting
from nmt.recipes.directory import RecipeDir
from nmt.translate.files import input_windows

NAME = "translations"
MAX_CHARS = 10_000
"""Maximum length of a line."""


def translate_by_chat(
    options: ChatOptions, languages: tuple[str, str], source: str, output: str, text: str | None
) -> None:
    """Translate lines; a line without a good translation is blank, counted, and listed in OUTPUT.rejected.tsv.

    Answers are kept in OUTPUT.work until the output is complete; without an output file, they are not kept.

    Args:
        languages: the source and the target language.
        source: a file, or `-` for standard input.
        output: the file to write, or `-` for standard output.
        text: a sentence to translate instead of `source`.

    Raises ConfigError, DataError, and StoppedError if the work was stopped.
    """
    refuse_overwriting([output], [source])
    direction = "-".join(languages)
    tree: dict[str, object] = {"direction": direction, "train": [{"files": dict.fromkeys(languages, "-")}]}
    data = overridden({"data": {**tree, "max_chars": MAX_CHARS}}, "--from and --to", []).data
    teacher = ChatTeacher(options, data, direction)
    if output == "-":
        teacher.after_stop = "; without --output, answers are not kept"
    lines = [text] if text is not None else [line for window in input_windows(source) for line in window]
    if is_dry_run(teacher, lines):
        return

    def translate(rows: Sequence[str], first: int, progress: Progress) -> Iterator[str]:
        return (next(iter(texts), "") for texts in teacher.translations(rows, first, progress))

    def count(_: Path) -> dict[str, int]:
        return Counter(filter(None, map(teacher.reason, filter(str.strip, lines))))

    with ExitStack() as opened:
        work = Path(f"{output}.work")
        if output == "-":
            work = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        version = fingerprint_of("\n".join(lines).encode())
        recipe = RecipeDir(work, {"recipe": "translate", "text": version}, teacher)
        with open_output(output) as out:
            counts = recipe.write(NAME, lines, len(lines), translate, count)
            out.write((work / NAME).read_bytes())
        for reason, n in sorted(counts.items()):
            say(f"{amount(n, 'line')} blank: {reason}")
        if output != "-":
            if (work / "rejected.tsv").is_file():
                shutil.move(work / "rejected.tsv", f"{output}.rejected.tsv")
            shutil.rmtree(work)
