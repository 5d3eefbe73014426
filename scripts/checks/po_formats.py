"""Record the verdicts of gettext's msgfmt on messages with format strings, a reference for the check of `nmt`.

    python -m scripts.checks.po_formats           # fail if the installed msgfmt differs from the recorded verdicts
    python -m scripts.checks.po_formats record    # write its verdicts, also for messages that were added by hand

A message of tests/golden/po_formats.json has its flag, its texts, whether `msgfmt --check` rejects it (`fatal`), and
whether nmt must mark it as fuzzy (`fuzzy`): at least if it is fatal. Takes a second.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "tests" / "golden" / "po_formats.json"
sys.path.insert(0, str(FILE.parents[1] / "helpers"))

from catalogues import catalogue, is_marked_fuzzy  # noqa: E402

Message = dict[str, Any]


def fatal(messages: list[Message]) -> list[bool]:
    """Whether msgfmt rejects each message."""
    content = catalogue(messages)
    starts = [number for number, line in enumerate(content.splitlines(), start=1) if line.startswith("#,")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.po"
        path.write_text(content, encoding="utf-8")
        command = ["msgfmt", "--check", "--output-file", os.devnull, str(path)]
        environment = os.environ | {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
        output = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stderr
    reported = [int(number) for number in re.findall(r"a\.po:([0-9]+): (?!warning)", output)]
    ends = [*starts[1:], sys.maxsize]
    return [any(start <= number < end for number in reported) for start, end in zip(starts, ends, strict=True)]


def main() -> None:
    """Compare or record; see the docstring of the module."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    messages = recorded["messages"]
    version = subprocess.run(["msgfmt", "--version"], capture_output=True, text=True, check=True).stdout.split()[3]
    verdicts = fatal(messages)
    if sys.argv[1:] == ["record"]:
        for message, verdict in zip(messages, verdicts, strict=True):
            message |= {"fatal": verdict, "fuzzy": message.get("fuzzy", is_marked_fuzzy(message))}
        lines = ",\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
        FILE.write_text(f'{{"msgfmt": "{version}", "messages": [\n{lines}\n]}}\n', encoding="utf-8")
        return
    different = [
        message for message, verdict in zip(messages, verdicts, strict=True) if message.get("fatal") is not verdict
    ]
    for message in different:
        print(message)
    print(f"msgfmt {version}: {len(different)} of {len(messages)} verdicts differ from msgfmt {recorded['msgfmt']}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
