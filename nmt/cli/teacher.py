"""The options of a language model that translates, which several commands take in the same spelling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from nmt.cli.options import option

if TYPE_CHECKING:
    from nmt.chat.teacher import ChatOptions

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS: dict[str, tuple[Any, object]] = {
    "teacher_url": (
        Annotated[
            str | None,
            option(
                "--teacher-url", "Base URL of an API for chat completions, such as http://localhost:8000/v1.", "URL"
            ),
        ],
        None,
    ),
    "teacher_model": (
        Annotated[str | None, option("--teacher-model", "Name of the language model on that server.", "NAME")],
        None,
    ),
    "terms": (
        Annotated[
            str | None,
            option("--terms", "The provider's terms for training on the translations, for the model card.", "TEXT"),
        ],
        None,
    ),
    "prompt": (
        Annotated[
            Path | None,
            option("--prompt", "Prompt with {text}, {source}, {target}, {terms}, {examples}.", "F"),
        ],
        None,
    ),
    "glossary": (
        Annotated[Path | None, option("--glossary", "Terms with their translations, for {terms}.", "F")],
        None,
    ),
    "tm": (
        Annotated[list[str], option("--tm", "Translation memory, for {examples}; may be repeated.", "F")],
        [],
    ),
    "lines_per_request": (
        Annotated[int, option("--lines-per-request", "Number of lines in a request.", "N", min=1, max=100)],
        1,
    ),
    "candidates": (
        Annotated[
            int,
            option("--candidates", "Ask for N translations, and take the one most similar to the others.", "N", min=1),
        ],
        1,
    ),
    "scorer": (
        Annotated[
            Path | None,
            option("--scorer", "Take the candidate that this run scores best (nmt score).", "RUN"),
        ],
        None,
    ),
    "request": (
        Annotated[Path | None, option("--request", "Further fields of each request.", "F.json")],
        None,
    ),
    "parallel": (
        Annotated[int, option("--parallel", "Number of requests at once.", "N", min=1, max=1000)],
        4,
    ),
    "price": (
        Annotated[str | None, option("--price", "Prices of a million tokens read and written.", "IN,OUT")],
        None,
    ),
    "max_tokens": (
        Annotated[int | None, option("--max-tokens", "Stop before N tokens have been used.", "N", min=1)],
        None,
    ),
    "max_cost": (
        Annotated[float | None, option("--max-cost", "Stop before this has been spent, at --price.", "X", min=0.0)],
        None,
    ),
    "unchecked": (
        Annotated[bool, option("--unchecked", "Take all answers as they are.")],
        False,
    ),
    "dry_run": (
        Annotated[bool, option("--dry-run", "Show the numbers of lines and tokens, the cost and three answers.")],
        False,
    ),
}
"""The type and the default of each option by the name of its parameter, which `ChatOptions` has, too."""


def with_teacher(*left_out: str) -> Callable[[Command], Command]:
    """Add the options to a command, which gets their values as the mapping `chat`.

    left_out: options that the command does not take, or has itself, in which case their values are in `chat`, too.
    """

    def decorated(command: Command) -> Command:
        added = {name: given for name, given in OPTIONS.items() if name not in left_out}

        @wraps(command)
        def with_options(**given: Any) -> Any:
            chat = {name: value for name, value in given.items() if name in OPTIONS}
            others = {name: value for name, value in given.items() if name not in added}
            return command(**others, chat=chat)

        signature = inspect.signature(command, eval_str=True)
        parameters = [parameter for name, parameter in signature.parameters.items() if name != "chat"]
        for name, (annotation, default) in added.items():
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_options  # type: ignore[return-value]

    return decorated


def chat_options(chat: Mapping[str, Any]) -> ChatOptions | None:
    """Return the options of a language model; None if none is given."""
    if chat["teacher_url"] is None:
        return None
    from nmt.chat.teacher import ChatOptions

    return ChatOptions(**chat)
