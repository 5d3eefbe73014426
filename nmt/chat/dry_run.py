"""What the translations of a text by a language model will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nmt.chat.protocol import estimated_tokens
from nmt.chat.teacher import ChatTeacher
from nmt.console import Progress, amount, printable_sentence, show
from nmt.prepare.cleaning.cleaner import SeenLines

N_SHOWN = 3
_SAMPLED = 300


def dry_run(teacher: ChatTeacher, lines: Iterable[str]) -> Iterator[str]:
    """Ask for the translations of three lines, which are not kept, and yield the lines of a report: the numbers of
    lines, tokens and their cost, and the three answers. Raises what `Asking.translate` raises.
    """
    options = teacher.options
    counts = Counter[str]()
    seen = SeenLines()
    sample = list[str]()
    n_lines = n_bytes = 0
    for line in lines:
        n_lines += 1
        text, reason = teacher.asked(line)
        if reason is None and not seen.add([text])[0]:
            reason = "repeated lines, asked for once"
        if reason is not None:
            counts[reason] += 1
            continue
        counts["lines to translate"] += 1
        n_bytes += len(text.encode())
        if len(sample) < _SAMPLED:
            sample.append(text)
    yield f"{n_lines:>12,}  lines"
    for name, n in sorted(counts.items()):
        yield f"{n:>12,}  {name}"
    if not sample:
        return
    n_shown = min(N_SHOWN, len(sample))
    shown = [sample[number * len(sample) // n_shown] for number in range(n_shown)]
    with teacher.opened(None, len(shown)) as asking, Progress("translating", len(shown)) as progress:
        translations = [*asking.translations(shown, 0, progress)]
        reasons = [asking.reason(line) for line in shown]
        totals = asking.answers.totals()
    prompts = {line: teacher.prompter.prompt([line]) for line in sample}
    # servers count tokens in their own way: their counts for the three lines are scaled
    overhead = sum(estimated_tokens(prompts[line]) - estimated_tokens(line) for line in sample) / len(sample)
    n = counts["lines to translate"]
    estimated = overhead * n / options.lines_per_request + n_bytes / 4
    factor = totals.read / sum(estimated_tokens(prompts[line]) for line in shown) / options.candidates
    read = options.candidates * estimated * factor
    written = totals.written / sum(len(line.encode()) for line in shown) * n_bytes
    yield f"about {teacher.spent(read, written)}"
    if options.price is None:
        yield "--price IN,OUT, the prices of a million tokens read and written, shows what it costs"
    for line, texts, reason in zip(shown, translations, reasons, strict=True):
        yield from ("", printable_sentence(line), f"  {reason or printable_sentence(texts[0])}")
    yield ""
    spent = teacher.spent(totals.read, totals.written, totals.is_estimated)
    yield f"nothing was written; {amount(totals.n_requests, 'request')} to {totals.models}: {spent}"


def is_dry_run(teacher: object, lines: Iterable[str]) -> bool:
    """Print the report and return true if the teacher is a language model that is only tried."""
    if not (isinstance(teacher, ChatTeacher) and teacher.options.dry_run):
        return False
    show(*dry_run(teacher, lines))
    return True
