"""The files of a report."""

from __future__ import annotations

import json
from pathlib import Path

from nmt.files.write import replace_file
from nmt.layout import DataDir
from nmt.prepare.reporting.page import report_page
from nmt.prepare.reporting.report import Report


def write_report(folder: Path, report: Report) -> None:
    """Write report.json and report.html into a folder. Raises OSError."""
    directory = DataDir(folder)
    replace_file(directory.report, report_json(report))
    replace_file(directory.report_page, report_page(report))


def report_json(report: Report) -> str:
    """Return the report as JSON."""
    tree = report.model_dump(mode="json", exclude={name for name in ("mono", "classes") if not getattr(report, name)})
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
