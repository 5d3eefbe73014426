"""Requests for chat completions (`POST …/chat/completions`), as OpenAI, vLLM, llama.cpp, Ollama and others answer them.

Servers differ in the fields that they accept. A field that a server refuses is left out from then on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from nmt.chat.answers import Answer
from nmt.errors import ConfigError, DataError, error_text
from nmt.prepare.download import JSON_BYTES, Failure, answer, check_url, retried
from nmt.process import Stop

KEY = "OPENAI_API_KEY"
"""The environment variable with the key."""
TIMEOUT = 300.0
"""Seconds without an answer after which a request fails."""
PATH = "/chat/completions"
INVALID = (400, 413, 422)
"""The statuses of requests that a server refuses because of their content."""
POLL = 0.2  # seconds between two checks whether the process should stop
_THOUGHTS = 8192  # tokens that a model may use to reason before it answers


class Question(NamedTuple):
    """A question to a model about lines."""

    lines: tuple[str, ...]
    number: int
    """The number of the candidate, from 0."""
    prompt: str
    limit: int
    """Maximum number of tokens of the answer, without those of reasoning."""


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one for four bytes of UTF-8, about right for English and Chinese."""
    return len(text.encode()) // 4 + 1


def status_of(error: DataError) -> int:
    """Return the status of the response that caused an error of `Client.ask`; 0 if there was no response."""
    return getattr(error.__cause__, "status", None) or 0


class Client:
    """A client of one model on a server; it can be used by several threads."""

    def __init__(self, url: str, base: Mapping[str, Any], fields: Mapping[str, object]) -> None:
        """Set up the client, without a request.

        Args:
            url: the base of the API, such as `http://localhost:8000/v1`.
            base: the model and the temperature of each request.
            fields: further fields of each request, which replace those with the same names; None removes a field.

        The key is read from the environment variable `KEY`, if it is set. Raises ConfigError or DataError.
        """
        if "@" in url.partition("?")[0]:
            raise ConfigError(f"--teacher-url: contains a password; set the environment variable {KEY} instead")
        parts = urlsplit(check_url(url))
        if fields.get("stream"):
            raise ConfigError("--request: stream must be left out: an answer is read when it is complete")
        path = parts.path.rstrip("/").removesuffix(PATH) + PATH
        self._url = urlunsplit(parts._replace(path=path))
        self._name = self._url.partition("?")[0]  # a query may contain a key
        self.host = parts.hostname or ""
        self.stop = Stop(work="the requests under way")
        """Ends all pauses between tries."""
        self._base = base
        self._fields = fields
        self._key = os.environ.get(KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):  # an error of the request would show it
            raise ConfigError(f"{KEY}: is not a key, since it has characters that are not printable ASCII")
        self._refused = set[str]()
        self._accepted = set[str]()
        self._is_known = False
        """Whether the server has answered."""
        self._reasons = False

    @property
    def has_format(self) -> bool:
        """Whether the server may be asked for an answer in JSON (`response_format`)."""
        return "response_format" not in {*self._refused, *self._fields}

    @property
    def temperature(self) -> Any:
        """The temperature that is asked for; None if it is the server's."""
        return None if "temperature" in self._refused else {**self._base, **self._fields}["temperature"]

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question. Raises DataError; its cause is the Failure."""
        refused = {*self._refused}
        while True:
            fields = self._request(question, refused)
            try:
                result = retried(self._name, lambda: self._attempt(fields, question), sleep=self._sleep)  # noqa: B023
            except DataError as error:
                named = {name for name in fields if name in str(error)} - {"model", "messages", *self._fields}
                if status_of(error) not in INVALID or not named:
                    raise
                refused |= named
            else:
                # now it is known that they were the reason, but perhaps only of a long limit
                self._accepted |= fields.keys()
                self._refused |= refused - self._accepted
                return result

    def _sleep(self, seconds: float) -> None:
        """Wait before another try. Raises Interrupted if the process should stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.stop.poll()
            time.sleep(min(seconds, POLL))

    def _request(self, question: Question, refused: set[str]) -> dict[str, object]:
        """Return the fields of a request."""
        limit = question.limit + _THOUGHTS * self._reasons
        fields = {**self._base, "max_tokens": limit, "messages": [{"role": "user", "content": question.prompt}]}
        if "max_tokens" in refused:  # newer models of OpenAI, which reason
            fields["max_completion_tokens"] = question.limit + _THOUGHTS
        if question.number:
            fields["seed"] = question.number
        if len(question.lines) > 1:
            texts = {str(number): {"type": "string"} for number in range(1, len(question.lines) + 1)}
            schema = {"type": "object", "properties": texts, "required": [*texts], "additionalProperties": False}
            named = {"name": "translations", "strict": True, "schema": schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        fields = {name: value for name, value in fields.items() if name not in refused}
        return {name: value for name, value in {**fields, **self._fields}.items() if value is not None}

    def _attempt(self, fields: Mapping[str, object], question: Question) -> Answer:
        """Send a request, and return the answer. Raises Failure."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with answer(self._url, headers, json.dumps(fields).encode(), TIMEOUT) as response:
                received = response.read(JSON_BYTES)
        except Failure as failure:
            reason = f"{failure} {self._shown(failure.body)}".rstrip()
            if failure.status in (401, 403):
                reason += f"; is {KEY} the key of this server?"
            elif failure.status in (301, 302, 303, 307, 308, 404, 405):
                reason += "; is the address right, such as http://localhost:8000/v1, and the name of the model?"
            elif (failure.status or 0) >= 500 and not self._is_known:  # some servers do not say which error it is
                reason += "; is the name of the model right? The server's log may say more"
            # a server that has answered before is being restarted
            may_pass = failure.may_pass or (self._is_known and failure.status is None)
            raise Failure(reason, may_pass, failure.wait, failure.status) from None
        try:
            completion = json.loads(received)
            choice = completion["choices"][0]
            message = choice["message"]
            content = message.get("content") or ""
            if isinstance(content, list):  # parts, which may be thoughts
                content = "".join(part.get("text", "") for part in content)
            # half of a surrogate pair, where an answer was cut off, could not be kept
            text = str(content).encode(errors="surrogatepass").decode(errors="replace")
            tokens = completion.get("usage") or {}
            read = int(tokens.get("prompt_tokens") or estimated_tokens(question.prompt))
            written = int(tokens.get("completion_tokens") or estimated_tokens(text))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            # after some tries, as a refusal: some servers do not answer a line that a filter blocks
            reason = f"the response is no chat completion: {self._shown(received)}"
            raise Failure(reason, may_pass=True, status=INVALID[0]) from None
        self._is_known = True
        self._reasons |= "<think" in text or bool(message.get("reasoning_content") or message.get("reasoning"))
        end = "content_filter" if message.get("refusal") else choice.get("finish_reason") or "stop"
        return Answer(text, str(end), str(completion.get("model") or fields["model"]), read, written)

    def _shown(self, received: bytes) -> str:
        """Return the beginning of a response, without the key, which it may repeat."""
        text = received.decode(errors="replace")
        return error_text(text.replace(self._key, "***") if self._key else text) if text.strip() else ""
