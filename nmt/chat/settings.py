"""The options of a language model that translates, which several commands take."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nmt.section import Section


class ChatOptions(Section):
    """The options, by the names of their parameters; their descriptions are the help of the commands."""

    teacher_url: str = ""
    """Base URL of an API for chat completions, such as http://localhost:8000/v1."""
    teacher_model: str = ""
    """Name of the language model on that server."""
    terms: str | None = None
    """What the provider's terms say about training on its translations, for the model card."""
    prompt: Path | None = None
    """File with the prompt, in which {text}, {source}, {target}, {terms} and {examples} are replaced."""
    glossary: Path | None = None
    """Terms with their translations, for {terms}."""
    tm: list[str] = Field([])
    """Translation memory, for {examples}; may be repeated."""
    lines_per_request: int = 1
    """Number of lines in a request."""
    candidates: int = 1
    """Number of translations of a line, of which the one most similar to the others is taken."""
    scorer: Path | None = None
    """Run whose score chooses among the candidates (nmt score)."""
    request: Path | None = None
    """JSON file with further fields of each request."""
    parallel: int = 4
    """Number of requests at once."""
    price: str | None = None
    """Prices of a million tokens read and written: IN,OUT."""
    max_tokens: int | None = None
    """Stop when so many tokens have been used."""
    max_cost: float | None = None
    """Stop when so much has been spent, at --price."""
    unchecked: bool = False
    """Take all answers as they are."""
    dry_run: bool = False
    """Show the numbers of lines and tokens, the cost and three answers."""
