"""The page of `nmt serve` as someone uses it."""

from __future__ import annotations

from typing import Any

from browser import Tab

SHOWN = "[...document.querySelectorAll('#result > span')].map(line => line.textContent)"
MESSAGE = "document.getElementById('message').checkVisibility() && document.getElementById('message-text').textContent"
CTRL, SHIFT = 2, 8


class Page:
    """The page in a tab of a browser."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def get(self, control: str, what: str) -> Any:
        """Return a property of an element."""
        return self.tab.evaluate(f"document.getElementById({control!r}).{what}")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true; fail after a time limit."""
        within = f"(async () => {{ for (let i = 0; i < 1000; i++) {{ if ({condition}) return true; " \
            "await new Promise(done => setTimeout(done, 10)); } return false; })()"  # fmt: skip
        assert self.tab.evaluate(within), f"{condition}; {self.tab.evaluate(SHOWN)}, {self.tab.evaluate(MESSAGE)}"

    def press(self, key: str, modifiers: int = 0, code: int = 0) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.tab.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers, windowsVirtualKeyCode=code)

    def write(self, text: str) -> None:
        """Replace the text."""
        self.tab.evaluate("document.getElementById('text').select()")
        self.tab.call("Input.insertText", text=text)

    def shows(self, *lines: str) -> None:
        """Wait for a translation."""
        self.wait(
            f"document.getElementById('result').ariaBusy === 'false' && {SHOWN}.join('|') === {'|'.join(lines)!r}"
        )

    def translate(self, text: str, *lines: str) -> None:
        """Replace the text, and wait for its translation."""
        self.write(text)
        self.shows(*lines)

    def choose(self, control: str, value: str) -> None:
        """Choose an item of a list."""
        self.tab.evaluate(
            f"(c => {{ c.value = {value!r}; c.dispatchEvent(new Event('input', {{bubbles: true}})) }})"
            f"(document.getElementById({control!r}))"
        )

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.tab.evaluate(f"document.querySelector({selector!r}).click()")

    def hover(self, selector: str) -> None:
        """Move the mouse over an element."""
        x, y = self.tab.evaluate(
            f"(box => [box.x + box.width / 2, box.y + box.height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        self.tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def open(self, url: str) -> None:
        """Open the page, and wait until it is usable or shows an error."""
        self.tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
        self.tab.open(url)
        self.wait("document.getElementById('count').textContent || !document.getElementById('message').hidden")
