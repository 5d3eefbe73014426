"""Run the training command of a toolkit in this process until it ends.

python -m scripts.bench.learn NAME ARGUMENTS OF THE TOOLKIT
"""

from __future__ import annotations

import sys

from scripts.bench.peers import PEERS
from scripts.bench.probe import find


def main() -> None:
    """Train."""
    name, *arguments = sys.argv[1:]
    training = PEERS[name].training
    assert training is not None
    owner, function = find(training.entry)
    sys.argv = [name, *arguments]
    getattr(owner, function)()


if __name__ == "__main__":
    main()
