"""Run `scripts.gpu.check` with made-up results; the parts `agreement` and `bleu` cannot pass.

python -m scripts.gpu.null.check [ITS OPTIONS]
"""

from __future__ import annotations

import sys

import scripts.gpu.null.counts  # noqa: F401  checks that the stubs are there
from scripts.gpu import check
from scripts.gpu.null.made_up import make_up

_command = check.command


def main() -> int:
    """Run the check, each part in a process of this module."""
    make_up()
    # how long it takes here tells nothing
    check.PARTS.update({part: (module, 10 * seconds) for part, (module, seconds) in check.PARTS.items()})
    check.command = lambda *options: [part.replace("scripts.gpu.", "scripts.gpu.null.") for part in _command(*options)]
    return check.main()


if __name__ == "__main__":
    sys.exit(main())
