"""States of translations in XLIFF and TMX, and in the dialects of Trados, memoQ, Phrase and other programs.

One table for all that read or write states. A state is an attribute or a property with its value, such as `state new`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMES = "(translate|state(-qualifier)?|conf(irmed)?|(x-(segment-|mateCAT-|xtm-)?)?status|x-ConfirmationLevel)"
"""Matches the names of states. Beside `state` and `state-qualifier`, these are `conf` and `x-ConfirmationLevel` of
Trados, `status` of memoQ, `confirmed` of Phrase, properties of Matecat and XTM, and properties of other programs that
are called a status."""
UNTRANSLATED = f"{_NAMES} (new|initial|unspecified|needs-translation|(un|not ?)(started|translated))"
"""Matches the state of a text that is still to be translated."""
UNCONFIRMED = (
    f"{UNTRANSLATED}|{_NAMES} (no|draft|0|false|fuzzy(-match)?|leveraged-mt|[mt]{{2}}-suggestion"
    "|(needs|rejected).{0,30}|(un|not ?)(approved|confirmed|finished|reviewed)|pre-?translated|partiallyedited"
    "|machinetranslated|assembledfromfragments)|subState nmt:.*"
)
"""Matches the state of a text that is not to be translated, or whose translation is missing, unfinished or rejected, or
has been confirmed by nobody."""
FINAL = (
    "state (final|signed-off|reviewed)|approved yes|conf (translated|approved.*)|confirmed [1-9]"
    "|status (manuallyconfirmed|proofread|confirmed).*|locked (?!no|false|0).+|subState nmt:needs-review"
)
"""Matches the state of a text that somebody has confirmed or locked."""

NEEDS_REVIEW, TRANSLATED = "needs-review-translation", "translated"
MACHINE = {
    "target": {"state": NEEDS_REVIEW, "state-qualifier": "mt-suggestion"},
    "trans-unit": {"status": "MachineTranslated", "confirmed": "0", "trans-origin": "mt"},
    "segment": {"state": TRANSLATED, "subState": "nmt:mt"},
    "seg": {"conf": "Draft", "origin": "mt"},
}
"""The states of a machine translation, which are `UNCONFIRMED`, by the name of the element: of XLIFF 1.2; of memoQ and
Phrase, if the element has such attributes; of XLIFF 2; of Trados."""
FLAWED = {"state": "initial", "subState": "nmt:needs-review"}
"""The states in XLIFF 2 of a machine translation with a lost placeholder or another problem."""


def state_of(states: Iterable[tuple[str, str]], kind: str) -> str:
    """Return the first of some names and values, such as `state new`, that is of a kind such as `UNCONFIRMED`; empty if
    none is. A namespace before a name, in braces, is left out."""
    for name, value in states:
        state = f"{name.rpartition('}')[2]} {value.strip()}"
        if re.fullmatch(kind, state, re.IGNORECASE):
            return state
    return ""
