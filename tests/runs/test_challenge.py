"""`nmt challenge` on the test set of a run's data directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from command import Command
from fitting import fit
from nmt.prepare.prepare import prepare
from tiny_corpus import tiny_settings, tiny_text


def test_challenge_scores_run_and_ensemble(nmt: Command, tmp_path: Path) -> None:
    text, data, run = (tmp_path / name for name in ("text", "data", "run"))
    tiny_text(text)
    numbers = "".join(f"mali 2{n} ta\n" for n in range(9))
    for language in ("aa", "bb"):
        (text / f"test.{language}").write_text(f"mali ta\n{numbers}", encoding="utf-8")
    config = tiny_settings(text, training={"max_steps": 2})
    prepare(config, data, echo=lambda _: None)
    fit(config, data, run, resume=False)

    result = nmt("challenge", "--run", run, "--format=json")
    assert (result.status, result.err) == (0, "")
    found = json.loads(result.out)
    assert (found["split"], found["lines"], found["step"]) == ("test", 10, 2)
    assert {entry["kind"]: entry["pairs"] for entry in found["kinds"]} == {"name": 0, "number": 9, "clause dropped": 0}

    other = tmp_path / "other"
    shutil.copytree(run, other)
    result = nmt("challenge", "--run", run, "--run", other, "--split", "test", "--seed", "2", "--format=json")
    both = json.loads(result.out)
    assert [member["run"] for member in both["ensemble"]] == [str(run), str(other)]
    assert (both["seed"], both["run"]) == (2, None)
    assert both["kinds"][1]["margin"] != found["kinds"][1]["margin"], "other contrasts"

    assert nmt("challenge", "--run", run, "--split", "valid").status == 2
