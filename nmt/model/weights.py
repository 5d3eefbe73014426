"""The identity of weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from torch import Tensor


def weights_fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of named weights as sixteen hexadecimal digits."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()[:16]
