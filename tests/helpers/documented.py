"""Commands in the documentation."""

from __future__ import annotations

import re
import shlex

CODE = re.compile(r"^```[a-z]*\n(.*?)^```", re.M | re.S)
"""A block of code in Markdown."""


def commands_in(text: str) -> list[list[str]]:
    """Return the arguments of every `nmt` command in shell code."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if "nmt" not in line or re.search(r"\[--|\[OPTIONS|…|->", line.partition("#")[0]):  # a synopsis is no command
            continue
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                if words[:1] == ["torchrun"] and "--" in words:
                    words = words[words.index("--") + 1 :]
                if words[:1] == ["nmt"]:
                    found.append(words[1:])
                words = []
            else:
                words.append(word)
    return found
