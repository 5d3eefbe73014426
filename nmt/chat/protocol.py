"""Requests for chat completions (`POST …/chat/completions`), as OpenAI, vLLM, llama.cpp, Ollama and others answer them.

Servers differ in the fields that they accept. A field that a server refuses is left out from then on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, Field, ValidationError

from nmt.chat.answers import Content, Usage
from nmt.errors import ConfigError, DataError, error_text
from nmt.prepare.download import JSON_BYTES, Failure, answer, check_url, retried

KEY = "OPENAI_API_KEY"
"""The environment variable with the key."""
TIMEOUT = 300.0
"""Seconds without an answer after which a request fails."""
PATH = "/chat/completions"
_OWN = ("model", "messages", "n", "stream")
_THOUGHTS = 8192  # tokens that a model may use to reason before it answers
_INVALID = (400, 413, 422)


class Question(NamedTuple):
    """A question to a model."""

    prompt: str
    n_lines: int
    """The number of lines to translate."""
    seed: int
    """The number of the candidate; 0 for the first."""
    limit: int
    """Maximum number of tokens of the answer, without those of reasoning."""


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    """The parts of an answer that are read."""

    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: _Tokens | None = None


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one for four bytes of UTF-8, about right for English and Chinese."""
    return len(text.encode()) // 4 + 1


def is_of_request(failure: object) -> bool:
    """Return whether a failure may be due to the content of the request: the server refuses it, or fails each time."""
    return isinstance(failure, Failure) and (failure.status in _INVALID or (failure.status or 0) >= 500)


class Client:
    """A client of one model on a server; it can be used by several threads."""

    def __init__(
        self, url: str, model: str, temperature: float, fields: Mapping[str, object], sleep: Callable[[float], object]
    ) -> None:
        """Set up the client, without a request.

        Args:
            url: the base of the API, such as `http://localhost:8000/v1`.
            fields: further fields of each request, which replace those with the same names; None removes a field.
            sleep: waits for some seconds before another try.

        The key is read from the environment variable `KEY`, if it is set. Raises ConfigError or DataError for another
        URL, and for fields that would change the protocol.
        """
        parts = urlsplit(check_url(url))
        if "@" in parts.netloc:
            raise ConfigError(f"--teacher-url: contains a password; set the environment variable {KEY} instead")
        if own := [name for name in _OWN if name in fields]:
            raise ConfigError(f"--request: {', '.join(own)} cannot be set; nmt sets model and messages")
        path = parts.path.rstrip("/").removesuffix(PATH) + PATH
        self._url = urlunsplit(parts._replace(path=path))
        self._name = urlunsplit(parts._replace(path=path, query=""))  # a query may contain a key
        self.host = parts.hostname or ""
        self._model = model
        self._temperature = temperature
        self._fields = fields
        self._sleep = sleep
        self._key = os.environ.get(KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):  # an error of the request would show it
            raise ConfigError(f"{KEY}: is not a key, since it has characters that are not printable ASCII")
        self._refused = set[str]()
        self._has_answered = False
        self._reasons = False

    @property
    def has_format(self) -> bool:
        """Whether the server may be asked for an answer in JSON (`response_format`)."""
        return "response_format" not in {*self._refused, *self._fields}

    @property
    def temperature(self) -> object:
        """The temperature that is asked for; None if it is the server's."""
        return None if "temperature" in self._refused else self._fields.get("temperature", self._temperature)

    def ask(self, question: Question) -> tuple[Content, Usage]:
        """Return the answer to a question. Raises DataError, whose cause is the Failure if there was one."""
        refused = {*self._refused}
        while True:
            fields = self._optional(question, refused)
            message = {"role": "user", "content": question.prompt}
            body = json.dumps({"model": self._model, "messages": [message], **fields}).encode()
            try:
                result = retried(self._name, partial(self._attempt, body, question.prompt), sleep=self._sleep)
            except DataError as error:
                failure = error.__cause__
                if not (isinstance(failure, Failure) and failure.status in _INVALID):
                    raise
                named = {name for name in fields if name in str(failure)} - self._fields.keys()
                if not named:
                    raise
                refused |= named
            else:
                self._refused |= refused  # now it is known that they were the reason
                return result

    def _optional(self, question: Question, refused: set[str]) -> dict[str, object]:
        """Return the fields of a request besides the model and the messages."""
        limit = question.limit + _THOUGHTS * self._reasons
        fields: dict[str, object] = {"temperature": self._temperature, "max_tokens": limit}
        if "max_tokens" in refused:  # newer models of OpenAI, which reason
            fields["max_completion_tokens"] = question.limit + _THOUGHTS
        if question.seed:
            fields["seed"] = question.seed
        if question.n_lines > 1:
            numbers = [str(number + 1) for number in range(question.n_lines)]
            schema = {
                "type": "object", "properties": {key: {"type": "string"} for key in numbers}, "required": numbers,
                "additionalProperties": False,
            }  # fmt: skip
            named = {"name": "translations", "strict": True, "schema": schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        for name in refused:
            fields.pop(name, None)
        return {name: value for name, value in {**fields, **self._fields}.items() if value is not None}

    def _attempt(self, body: bytes, prompt: str) -> tuple[Content, Usage]:
        """Send a request, and return the answer. Raises Failure."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with answer(self._url, headers, body, TIMEOUT) as response:
                received = response.read(JSON_BYTES)
        except Failure as failure:
            # a server that has answered before is being restarted
            may_pass = failure.may_pass or (self._has_answered and failure.status is None)
            reason = f"{failure}{self._detail(failure)}"
            raise Failure(reason, may_pass, failure.wait, failure.status) from failure
        try:
            completion = _Completion.model_validate_json(received)
        except ValidationError:
            start = self._without_key(received.decode(errors="replace"))[:200]
            raise Failure(f"the response is not a chat completion: {error_text(start)}", may_pass=True) from None
        self._has_answered = True
        choice = completion.choices[0]
        message = choice.message
        text = message.content or ""
        end = choice.finish_reason or "stop"
        if message.refusal and not text:
            end = "content_filter"
        self._reasons |= bool(message.reasoning or message.reasoning_content or "<think" in text)
        tokens = completion.usage or _Tokens()
        read = tokens.prompt_tokens
        written = tokens.completion_tokens
        is_estimated = read is None or written is None
        if read is None or written is None:
            read, written = estimated_tokens(prompt), estimated_tokens(text)
        return Content(text, end), Usage(completion.model or self._model, read, written, is_estimated)

    def _detail(self, failure: Failure) -> str:
        """Return what a server says about a failure, and what to do."""
        text = failure.body.decode(errors="replace")
        try:
            document = json.loads(text)
            if isinstance(document, dict):
                text = document.get("error") or document.get("detail") or document.get("message") or text
            if isinstance(text, dict):
                text = text.get("message") or json.dumps(text)
        except (ValueError, RecursionError):
            pass
        detail = error_text(self._without_key(str(text)))
        detail = f": {detail}" if detail else ""
        if failure.status in (401, 403):
            detail += f"; is the environment variable {KEY} the key of this server?" if self._key else f"; set {KEY}"
        elif failure.status in (404, 405):
            detail += "; do --teacher-url, such as http://localhost:8000/v1, and --teacher-model exist?"
        elif 300 <= (failure.status or 0) < 400:
            detail += "; a request with text is not redirected: give the new address with --teacher-url"
        return detail

    def _without_key(self, text: str) -> str:
        """Return a text of the server without the key, which it may repeat."""
        return text.replace(self._key, "***") if self._key else text
