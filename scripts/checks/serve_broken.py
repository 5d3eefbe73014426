"""`nmt` with a translator that fails for lines with a certain word, which `serve_faults.py` runs as a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

BREAKS = "zerbrechen"


def main() -> None:
    """Run the command line."""
    from nmt.cli import main as run
    from nmt.translate.translator import Translator

    real = Translator.translate_window

    def translate_window(self: Translator, lines: Sequence[Any], *rest: Any, **named: Any) -> Iterator[Any]:
        texts = [line if isinstance(line, str) else line.text for line in lines]  # an export has texts alone
        if any(BREAKS in text for text in texts):
            raise RuntimeError(f"cannot translate {texts[0]}")
        return real(self, lines, *rest, **named)

    Translator.translate_window = translate_window  # type: ignore[method-assign,assignment]
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
