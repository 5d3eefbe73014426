"""Leftovers of a process that was killed while writing a directory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from nmt.files.write import staged


def test_files_of_killed_writer_are_removed(tmp_path: Path) -> None:
    final = tmp_path / "data"
    code = (
        "import os, sys, signal, pathlib\n"
        "from nmt.files.write import staged\n"
        "with staged(pathlib.Path(sys.argv[1]), is_directory=True) as part:\n"
        "    (part / 'half').write_text('1')\n"
        "    (part / 'folder').mkdir()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(final)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["data.part"]
    with staged(final, is_directory=True) as part:
        (part / "a").write_text("1")
    assert [path.name for path in final.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [final]
