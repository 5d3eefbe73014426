"""Are documents that `nmt translate` writes read by other programs, with as many units and the same placeholders?

    python -m scripts.checks.other_programs RUN FOLDER OUTPUT [OPTION...]

Translates all documents of FOLDER into OUTPUT with the run, and reads them before and after: by Translate Toolkit (its
readers, by the Python that has it: Debian's translate-toolkit), and with the program that it is made for: msgfmt, Qt's
lrelease, plparse of GNUstep, aapt2, LibreOffice. A program that is not installed is named and left out. Options are
those of `nmt translate`. Prints a row for each file and program; the exit status is 1 if a program rejects a file, or
finds other units or placeholders.

Without a run (RUN is -), each text gets a mark instead of a translation, so that files in any language are checked; the
table then has a row for each format and program.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from nmt.cli.app import app
from nmt.documents import is_translated, open_document
from nmt.errors import DataError

TOOLKIT = {
    ".json": "jsonl10n.I18NextFile",
    ".arb": "jsonl10n.ARBJsonFile",
    ".properties": "properties.javafile",
    ".strings": "properties.stringsfile",
    ".xml": "aresource.AndroidResourceFile",
    ".resx": "resx.RESXFile",
    ".ts": "ts2.tsfile",
    ".yml": "yaml.RubyYAMLFile",
    ".yaml": "yaml.YAMLFile",
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), "xliff.xlifffile"),
    ".po": "po.pofile",
    ".srt": "subtitles.SubRipFile",
    ".html": "html.htmlfile",
}
"""Suffixes of files, and the class of Translate Toolkit that reads them."""
READER = """
import importlib, json, sys
module, _, name = sys.argv[1].rpartition(".")
store = getattr(importlib.import_module(f"translate.storage.{module}"), name)()
with open(sys.argv[2], "rb") as file:
    store.parse(file.read())
units = [unit for unit in store.units if not unit.isheader()]
texts = lambda side: [*map(str, getattr(side, "strings", [side or ""]))]
print(json.dumps([[unit.getid(), texts(unit.source), texts(unit.target)] for unit in units]))
"""
OFFICE = (".docx", ".odt", ".pptx", ".xlsx", ".csv", ".html")
PROGRAMS = {
    ".po": "msgfmt --check-format -o OUT FILE",
    ".ts": "lrelease FILE -qm OUT",
    ".strings": "plparse FILE",
    ".xml": "aapt2 compile FILE -o OUT",
    **dict.fromkeys(OFFICE, "soffice --headless --convert-to pdf --outdir OUT FILE"),
}
"""Suffixes of files, and the commands that accept them."""
PLACEHOLDER = re.compile(
    r"%(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?(?:h|l|ll|z)?[@a-zA-Z%]\b|%L?\d+|%n|[%$]?\{+[\w.:$-]*\}+|\$t\([^)]*\)"
)
BILINGUAL = (".po", ".ts", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff")


def units(path: Path) -> dict[str, tuple[str, str]]:
    """Return the source and the translation of each unit that Translate Toolkit reads, by its identifier."""
    reader = ["/usr/bin/python3", "-c", READER, TOOLKIT[path.suffix], str(path)]
    *_, printed = subprocess.run(reader, check=True, capture_output=True, text=True).stdout.splitlines()
    read = json.loads(printed)
    return {f"{number} {key}": ("\n".join(src), "\n".join(tgt)) for number, (key, src, tgt) in enumerate(read)}


def placeholders(text: str) -> Counter[str]:
    """Return the distinct placeholders of a text, which has one form or several; of an ICU message, its arguments."""
    if arguments := re.findall(r"\{\w+,\s*(?:plural|select)", text):
        return Counter({*arguments})
    return Counter({*PLACEHOLDER.findall(text)})


def compared(before: Path, after: Path) -> tuple[str, bool]:
    """Return what Translate Toolkit finds in a document and in its translation, and whether they agree."""
    try:
        sources = units(before)
    except subprocess.CalledProcessError:
        return "the source is not read, either", True
    translations = units(after)
    n_filled = 0
    different = []
    for (key, (src, first)), (of_translation, (same, tgt)) in zip(sources.items(), translations.items(), strict=False):
        if before.suffix in BILINGUAL:
            is_filled = bool(tgt.strip()) and not first.strip()
            n_filled += is_filled
            is_equal = src == same and (not is_filled or placeholders(src) == placeholders(tgt))
        else:
            n_filled += (src, first) != (same, tgt)
            is_equal = placeholders(first or src) == placeholders(tgt or same)
        if not is_equal or (before.suffix in BILINGUAL and key != of_translation):
            different.append(key)
    counts = f"{len(sources)} -> {len(translations)} units, {n_filled} translated"
    if different:
        counts += f", {len(different)} differ: {', '.join(different[:5])}"
    return counts, len(sources) <= len(translations) and not different


def accepted(path: Path) -> tuple[str, bool] | None:
    """Return what the program says that a document is made for, and whether it accepts it; None if there is none."""
    command = PROGRAMS.get(path.suffix, "").split()
    if not command or shutil.which(command[0]) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = folder if command[0] in ("soffice", "aapt2") else f"{folder}/out"
        copy = Path(folder) / "values" / path.name
        copy.parent.mkdir()
        shutil.copy(path, copy)
        filled = [{"FILE": str(copy), "OUT": out}.get(part, part) for part in command]
        done = subprocess.run(filled, capture_output=True, text=True, check=False)
        made = command[0] != "soffice" or any(Path(folder).glob("*.pdf"))
    last = (done.stderr or done.stdout).strip().splitlines()[-1:]
    return f"{command[0]}: {'accepts it' if done.returncode == 0 and made else last}", done.returncode == 0 and made


def marked(folder: Path, output: Path) -> None:
    """Write the documents of a folder with a mark in each text. Files that are refused are named."""
    for path in sorted(path for path in folder.rglob("*") if is_translated(path)):
        try:
            document = open_document(path, path.read_bytes())
        except DataError as error:
            print(f"refused {error}")
            continue
        target = output / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(document.translated([f"Xx's {text} é" for text in document.texts]))


def main() -> None:
    run, *folders = sys.argv[1:]
    folder, output = map(Path, folders[:2])
    if run == "-":
        marked(folder, output)
    else:
        options = ["--input", str(folder), "--output-dir", str(output), *folders[2:]]
        app(["translate", "--run", run, *options], standalone_mode=False)
    inputs = {path.relative_to(folder): path for path in folder.rglob("*") if is_translated(path)}
    counts = Counter[tuple[str, str, bool]]()
    problems = 0
    for after in sorted(path for path in output.rglob("[!.]*.*") if ".nmt" not in path.parts and is_translated(path)):
        name = after.relative_to(output)
        before = inputs.get(name) or min(
            (path for path in inputs.values() if path.suffix == after.suffix), key=lambda path: path.stem != after.stem
        )
        outcomes = [compared(before, after)] if after.suffix in TOOLKIT else []
        by_program = accepted(after)
        if by_program is not None and (by_program[1] or accepted(before) != by_program):  # not what it rejected before
            outcomes.append(by_program)
        for outcome, is_right in outcomes:
            problems += not is_right
            is_toolkit = (outcome, is_right) != by_program
            counts[after.suffix, "Translate Toolkit" if is_toolkit else outcome.partition(":")[0], is_right] += 1
            if run != "-" or not is_right:
                print(f"{'ok' if is_right else 'WRONG':6}{name}: {outcome}")
    for (suffix, program, is_right), n in sorted(counts.items()):
        print(f"{suffix:12}{program:20}{'read' if is_right else 'WRONG':6}{n:5}")
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
