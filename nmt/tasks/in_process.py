"""Run tasks one after the other in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.tasks.task import Done, Task


class InProcess:
    """Runs tasks one after the other in this process."""

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Do the tasks that are not done yet; yield each with its index."""
        for index, task in enumerate(tasks):
            final = work / task.name
            record = final / "record.json"
            if record.is_file() and (old := json.loads(record.read_bytes()))["key"] == task.key:
                yield index, Done(final, old["summary"])
                continue
            part = final.with_name(f"{final.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            summary = task.function(part, dict(task.arguments))
            (part / "record.json").write_text(json.dumps({"key": task.key, "summary": summary}), encoding="utf-8")
            shutil.rmtree(final, ignore_errors=True)
            part.rename(final)
            yield index, Done(final, summary)
