"""The options of a language model that translates, which several commands take in the same spelling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, TypeVar

from nmt.chat.settings import ChatOptions
from nmt.cli.options import option

Command = TypeVar("Command", bound=Callable[..., Any])

_METAVARS = {
    "teacher_url": "URL", "teacher_model": "NAME", "terms": "TEXT", "scorer": "RUN", "price": "IN,OUT", "max_cost": "X",
    **dict.fromkeys(("lines_per_request", "candidates", "parallel", "max_tokens"), "N"),
}  # fmt: skip


def with_teacher(*left_out: str) -> Callable[[Command], Command]:
    """Add the options of `ChatOptions` to a command, which gets their values as the mapping `chat`.

    left_out: options that the command does not take, or has itself.
    """

    def decorated(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        declared = [parameter for name, parameter in signature.parameters.items() if name != "chat"]
        added = []
        for name, field in ChatOptions.model_fields.items():
            if name not in left_out:
                metavar = None if field.annotation is bool else _METAVARS.get(name, "F")
                least = 1 if metavar == "N" else None
                flag = f"--{name.replace('_', '-')}"
                given = option(flag, field.description, metavar, min=least, show_default=bool(field.default))
                kind = inspect.Parameter.KEYWORD_ONLY
                annotation: Any = Annotated[field.annotation, given]
                added.append(inspect.Parameter(name, kind, default=field.default, annotation=annotation))

        @wraps(command)
        def with_options(**given: Any) -> Any:
            chat = {name: given[name] for name in ChatOptions.model_fields.keys() & given}
            for parameter in added:
                del given[parameter.name]
            return command(**given, chat=chat)

        with_options.__signature__ = signature.replace(parameters=[*declared, *added])  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*declared, *added)}
        return with_options  # type: ignore[return-value]

    return decorated


def chat_options(chat: Mapping[str, Any]) -> ChatOptions | None:
    """Return the options of a language model; None if none is given."""
    return ChatOptions(**chat) if chat["teacher_url"] else None
