"""Self-contained HTML pages, which load neither other files nor anything from the network."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files

from nmt.console import printable, printable_sentence


def document(title: str, style: str, body: Iterable[str], script: str | None = None) -> str:
    """Return an HTML page with a policy that forbids loading anything and running any script except `script`.

    `style` is CSS that is added to the style sheet of all pages.
    """
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escaped(title)}</title>",
            f"<style>{asset('nmt.figures', 'style.css')}{style}</style>\n</head>\n<body>",
            f"<h1>{escaped(title)}</h1>",
            *body,
            *([f"<script>{script}</script>"] if script else []),
            "</body>\n</html>\n",
        ]
    )


def asset(package: str, name: str) -> str:
    """Return the text of a data file of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def escaped(text: str, keep_lines: bool = False) -> str:
    """Escape a text for HTML, including invisible characters and characters that change the text direction."""
    lines = text.split("\n") if keep_lines else [text]
    return "\n".join(escape(printable(line)) for line in lines)


def escaped_sentence(text: str) -> str:
    """Escape a line of a corpus for HTML; an empty line becomes `(no text)`."""
    return escape(printable_sentence(text)) or '<span class="soft">(no text)</span>'


def language_attributes(language: str | None) -> str:
    """Return the HTML attributes `lang` and `dir` of an element with text in a language."""
    code = f' lang="{escape(language.replace("_", "-"))}"' if language else ""
    return f'{code} dir="auto"'
