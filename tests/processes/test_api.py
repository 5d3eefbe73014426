"""Tests of the Python API: `nmt.Translator` and `nmt.api`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import nmt
from nmt import Translator, api, process
from nmt.config.load import dump_config, load_config
from nmt.errors import ConfigError, DataError
from nmt.layout import RunDir
from nmt.runs.info import read_scores
from places import ROOT
from tiny_corpus import tiny_settings, tiny_text

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
STAGES, INSIDE, BUILT = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
"""The programs on the page: the four stages, what is inside a translation, and a model that is built."""


def test_api_names_are_available_without_imports() -> None:
    program = """\
import sys, nmt
assert {"Translator", "api", "__version__"} <= set(dir(nmt))
assert not hasattr(nmt, "train") and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert nmt.api is api and nmt.Translator is Translator


@pytest.mark.parametrize("first", ["from nmt import api", "import nmt.api", "from nmt import Translator",
                                   "from nmt.translate.loading import Translator"])  # fmt: skip
def test_environment_is_set_before_torch_import(first: str) -> None:
    program = f"""\
import os, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("THP_MEM_ALLOC_ENABLE"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Finder())
{first}
"""
    environment = {name: value for name, value in os.environ.items() if name not in process.ENVIRONMENT}
    environment["THP_MEM_ALLOC_ENABLE"] = "0"  # what the user has set stays
    done = subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.PIPE)
    assert done.stdout == b"10000 0\n"


@pytest.mark.usefixtures("quick")
def test_documented_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_text(tmp_path / "text", n_train=60)
    files = {split: {"files": {"de": f"{split}.aa", "en": f"{split}.bb"}} for split in ("train", "dev", "test")}
    config = tiny_settings(
        tmp_path / "text",
        data={
            "direction": "de-en", "dir": "data",
            "train": [files["train"]], "valid": files["dev"], "test": {"test": files["test"]},
        },
        training={"run_dir": "runs/mine-{direction}", "max_steps": 2, "warmup_steps": 1, "validate_every_steps": 2},
        tokenizer={"vocab_size": 310},
    )  # fmt: skip
    (tmp_path / "mine.yaml").write_text(dump_config(config), encoding="utf-8")
    names: dict[str, Any] = {}
    exec(STAGES, names)
    assert names["run"] == Path("runs/mine-de-en") and "bike" in names["text"] and len(names["texts"]) == 3
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-3:]] == ["bleu", "chrf", "ter"]

    found: dict[str, Any] = {}
    exec(INSIDE, found)
    best, others, part = found["best"], found["others"], found["part"]
    assert [best.text, *(each.text for each in others)] == names["texts"]
    assert best.score >= others[0].score and sum(found["log_probs"]) == pytest.approx(best.log_prob, abs=1e-3)
    n_src, n_tgt = len(part.src_ids) + 1, len(part.tgt_ids) + 1
    shapes = {name.split(".", 1)[0] + name[16:]: weights.shape[1:] for name, weights in found["attention"].items()}
    assert shapes == {"encoder.attention": (n_src, n_src), "decoder.attention": (n_tgt, n_tgt),
                      "decoder.cross_attention": (n_tgt, n_src)}  # fmt: skip
    for weights in found["attention"].values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    [mean] = found["translator"].forced_decoder().attention([(part.src_ids, part.tgt_ids)])
    of_heads = found["attention"]["decoder.layers.0.cross_attention"]
    torch.testing.assert_close(of_heads.mean(0), mean, atol=1e-5, rtol=0)
    assert Path("attention.pdf").read_bytes().startswith(b"%PDF")

    assert load_config("runs/mine-de-en/config.yaml").training.seed == 2
    assert api.train(config, {"training.seed": 2, "training.max_steps": 3}, resume=True) == names["run"]
    scored = api.evaluate("runs/mine-de-en", "valid", checkpoint="last", search={"beam": 1})
    assert (scored.report.subject.step, len(scored.translations)) == (3, 12)
    both = api.evaluate_all("runs/mine-de-en", ["all", "valid"], checkpoint="last", search={"beam": 1})
    assert list(both) == ["test", "valid"] and both["valid"] == scored
    assert list(api.evaluate_all("runs/mine-de-en")) == ["test"]
    recorded = [(record.split, record.step) for record in read_scores(RunDir(Path("runs/mine-de-en")))]
    assert recorded[-4:-1] == [("valid", 3), ("test", 3), ("valid", 3)]
    for call, error, message in (
        (lambda: found["translator"].translate(["x"], n_best=0), ConfigError, "n_best"),
        (lambda: found["translator"].translations("x"), TypeError, r"\[text\]"),
        (lambda: api.evaluate("runs/mine-de-en", search={"beem": 1}), ConfigError, r"search\.beem"),
        (lambda: api.prepare(config, {"training.sed": "2"}), ConfigError, r"training\.sed"),
        (lambda: api.prepare(config, {"data.root": Path("nowhere")}, data="other"), DataError, "nowhere"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert not Path("other").exists()


def test_documented_model_learns_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BUILT, names := {"__name__": "built"})
    printed = capsys.readouterr().out
    assert names["n_right"] >= 9 and printed.endswith(f"{names['n_right']} of 10 are copied\n")
    model = "query=(64, 64), key=(64, 64), value=(64, 64)", "Embedding(\n      40, 64", "output=(40, 64) (tied)", "p=0"
    assert all(part in printed for part in model)
