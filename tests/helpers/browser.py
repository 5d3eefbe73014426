"""A headless Chromium, driven through a pipe by the DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Tab:
    """A page in the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._session, self._rest = 0, "", b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            block = os.read(self._from, 1 << 20)
            assert block, "the browser has ended"
            self._rest += block
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, url: str, script: bool = True, ready: str = "true") -> None:
        """Open a page, and wait until it is loaded and the expression `ready` is true."""
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        for address in ("about:blank", url):  # first away from a page that differs in its fragment alone
            self.events.clear()
            self.call("Page.navigate", url=address)
            while not any(event["method"] == "Page.loadEventFired" for event in self.events):
                self.events.append(self._read())
        self.wait(ready)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        check = f"new Promise(done => (function check() {{ ({condition}) ? done() : setTimeout(check, 20); }})())"
        self.evaluate(check)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """Return what the browser has logged about the page: errors and violations of its policy."""
        entries = [event["params"]["entry"] for event in self.events if event["method"] == "Log.entryAdded"]
        thrown = [event["params"] for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        return [str(each) for each in (*entries, *thrown)]

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window in pixels, and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)


@contextmanager
def chromium(profile: Path, *options: str) -> Iterator[Tab]:
    """Start Chromium with a profile and further options, and end it."""
    assert CHROMIUM is not None
    own_read, to_browser = os.pipe()
    from_browser, own_write = os.pipe()

    command = [
        "bash", "-c", f'exec "$@" 3<&{own_read} 4>&{own_write}', "bash",  # where Chromium looks for the pipe
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--remote-debugging-pipe", f"--user-data-dir={profile}", *options, "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, pass_fds=(own_read, own_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(own_read)
    os.close(own_write)
    try:
        yield Tab(to_browser, from_browser)
    finally:
        process.kill()
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
