"""What the translations of a text by a language model will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nmt.chat.protocol import estimated_tokens
from nmt.chat.teacher import ChatTeacher
from nmt.console import Progress, printable_sentence, show

N_SHOWN = 3


def dry_run(teacher: ChatTeacher, lines: Iterable[str]) -> Iterator[str]:
    """Ask for the translations of three lines, which are not kept, and yield the lines of a report: the numbers of
    lines, tokens and their cost, and the three answers. Raises what `ChatTeacher.translations` raises.
    """
    counts = Counter[str]()
    texts = set[str]()
    for line in lines:
        text, reason = teacher.asked(line)
        counts[reason or ("repeated" if text in texts else "lines to translate")] += 1
        if reason is None:
            texts.add(text)
    for name, n in sorted(counts.items()):
        yield f"{n:>12,}  {name}"
    ordered = sorted(texts)
    shown = ordered[:: max(1, len(ordered) // N_SHOWN)][:N_SHOWN]
    with teacher.opened(None, len(shown)), Progress("translating") as progress:
        answers = [*teacher.translations(shown, 0, progress)]
        totals = teacher.used
        # servers count tokens in their own way: their counts for the lines shown are scaled
        scale = totals.read / max(1, _estimated(teacher, shown))
        written = totals.written / max(1, sum(map(len, shown))) * sum(map(len, ordered))
        used = totals._replace(read=round(scale * _estimated(teacher, ordered)), written=round(written))
        yield f"about {teacher.spent(used)}"
        for line, translations in zip(shown, answers, strict=True):
            answer = translations[0] if translations else str(teacher.reason(line))
            yield from ("", printable_sentence(line), f"  {printable_sentence(answer)}")


def _estimated(teacher: ChatTeacher, texts: Sequence[str]) -> int:
    """Return the estimated number of tokens of the prompts for texts."""
    size = teacher.options.lines_per_request
    return sum(estimated_tokens(teacher.prompter.prompt(texts[i : i + size])) for i in range(0, len(texts), size))


def is_dry_run(teacher: object, lines: Iterable[str]) -> bool:
    """Print the report and return true if the teacher is a language model that is only tried."""
    if not (isinstance(teacher, ChatTeacher) and teacher.options.dry_run):
        return False
    show(*dry_run(teacher, lines))
    return True
