"""Short identifiers of content."""

from __future__ import annotations

import hashlib


def fingerprint_of(content: bytes) -> str:
    """Return the first sixteen hexadecimal digits of the SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()[:16]
