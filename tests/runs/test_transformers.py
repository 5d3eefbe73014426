"""Tests that models exported with `--format transformers` give equal results in that library."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Command
from export_run import LINES, card_of, section, with_search, write_run
from forced import forced
from hub_client import use_hub
from hub_server import Hub, serve
from nmt.model.masks import Padded
from nmt.runs.model import Saved, open_saved
from nmt.share.export import ExportOptions, export
from nmt.share.transformers import tokenizer_config, tokenizer_json
from nmt.text.ids import EOS, N_SPECIAL
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from peer import of_transformers
from places import GOLDEN
from tiny_run import STRANGE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

pytestmark = pytest.mark.usefixtures("no_coverage")

KINDS = {
    "PegasusForConditionalGeneration": {"norm": "pre", "activation": "gelu"},
    "BlenderbotForConditionalGeneration": {
        "norm": "pre", "positions": "learned", "max_positions": 300, "activation": "silu",
    },
    "MarianMTModel": {"norm": "post", "start_embedding": "end"},
}  # fmt: skip
SPECIAL = [
    "</s>", "<s>", "<pad> <unk>", "a</s>b <reserved_3>", ">>fr<< mali", "<0x41>", "\u2581mali\u2581", "\u2585",
    "  mali   bo  ", "mali\tbo", "e\u0301\u0301", "\x85\x7f\x1fmali", "\U0010ffff\ufffd\U0001f469\u200d\U0001f4bb",
    "\u0645\u0631\u062d\u0628\u0627", "mali" * 300,
]  # fmt: skip


@dataclass(frozen=True)
class Both:
    """Return a run, and its export loaded by transformers."""

    run: Path
    saved: Saved
    path: Path
    model: Any
    tokenizer: Any

    def generated(self, lines: list[str], **settings: object) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = self.model.generate(
                **self.tokenizer(lines, padding=True, return_tensors="pt"), **settings
            )
        return found

    def translated(self, lines: list[str], **settings: object) -> list[str]:
        return list(self.tokenizer.batch_decode(self.generated(lines, **settings), skip_special_tokens=True))


def both(run: Path, path: Path) -> Both:
    export(ExportOptions(run), path, "transformers")
    model, told = of_transformers("AutoModelForSeq2SeqLM").from_pretrained(path, output_loading_info=True)
    assert not any(told.values()), told
    return Both(run, open_saved(run), path, model, of_transformers("AutoTokenizer").from_pretrained(path))


@pytest.fixture(scope="module", params=KINDS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("exported")
    run = write_run(folder / "run", encoder_layers=2, **KINDS[request.param])
    found = both(with_search(run, "max_length_ratio=0", "max_length_offset=9", "beam=1"), folder / "out")
    assert type(found.model).__name__ == request.param
    return found


def logits(each: Both, target: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits by nmt and by transformers for LINES with arbitrary translations."""
    source = each.tokenizer(LINES, padding=True, return_tensors="pt")
    ours, theirs = each.saved.transformer().to(dtype), copy.deepcopy(each.model).to(dtype)
    # with gradients, since without them our attention has a softmax in float32
    mask, whole = Padded(source.attention_mask.bool()), Padded(torch.ones_like(target, dtype=torch.bool))
    hidden = ours(source.input_ids, mask, target, whole)
    found = theirs(**source, decoder_input_ids=target).logits
    return (hidden @ ours.output_weight.T).detach(), found.detach()


def test_transformers_logits_are_equal(exported: Both) -> None:
    target = torch.randint(N_SPECIAL, 300, (len(LINES), 7), generator=torch.Generator().manual_seed(1))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 3e-5)):
        ours, theirs = logits(exported, target, dtype)
        assert (ours - theirs).abs().max() <= tolerance * ours.abs().max()
    assert ours.std() > 0.5


def test_greedy_translations_are_equal(exported: Both) -> None:
    native = Translator.load(exported.run, device="cpu", precision="float32")
    wanted = [[*best.parts[0].tgt_ids] for best, *_ in native.translate_lines(LINES, native.config.search)]
    assert len({*map(tuple, wanted)}) > 1
    assert [row[1 : row.index(EOS, 1)] for row in exported.generated(LINES).tolist()] == wanted


def test_transformers_translates_like_nmt(tmp_path: Path) -> None:
    run = with_search(Path(shutil.copytree(GOLDEN / "run", tmp_path / "run")), "beam=1")  # it translates well
    found = both(run, tmp_path / "out")
    lines = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["source"]
    native = Translator.load(run, device="cpu", precision="float32")
    wanted = [[*best.parts[0].tgt_ids] for best, *_ in native.translate_lines(lines)]
    leads = [each.lead for each in forced(found.model, found.tokenizer, lines, wanted)]
    generated = found.generated(lines).tolist()
    clear = [i for i, lead in enumerate(leads) if lead > 1e-3]
    assert len(clear) > 5 and [generated[i][1 : len(wanted[i]) + 1] for i in clear] == [wanted[i] for i in clear]
    translations = native.translate(lines, beam=3)
    assert sum(map(str.__eq__, found.translated(lines, num_beams=3), translations)) >= 0.9 * len(lines)


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the hub's client itself
def test_pushed_model_is_loaded_by_name(tmp_path: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run = with_search(write_run(tmp_path / "run"), "max_length_ratio=0", "max_length_offset=9", "beam=1")
    with serve(Hub()) as hub:
        use_hub(hub, tmp_path / "home", monkeypatch)
        pushed = nmt("push", "--format", "transformers", run, "me/tiny")
        assert pushed.status == 0, pushed.err
        names: dict[str, Any] = {}
        card = hub.repositories["me/tiny"]["main"]["README.md"].decode()
        exec(section(card, "Use").split("```")[1].removeprefix("python\n"), names)
        found = Both(run, open_saved(run), tmp_path, names["model"], names["tokenizer"]).translated(LINES)
    assert found == Translator.load(run, device="cpu", precision="float32").translate(LINES)


# --- the tokenizer --------------------------------------------------------------------------------


def loaded(tokenizer: Tokenizer, path: Path) -> PreTrainedTokenizerFast:
    for name, content in (("", tokenizer_json(tokenizer)), ("_config", tokenizer_config(100))):
        (path / f"tokenizer{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return of_transformers("PreTrainedTokenizerFast").from_pretrained(path)


def check_tokenizer(ours: Tokenizer, theirs: PreTrainedTokenizerFast, lines: list[str]) -> None:
    lines = [*map(ours.as_read, lines)]  # in the forms that the vocabulary knows
    wanted = [[*ids, EOS] for ids in ours.encode_all(lines)]
    found = theirs(lines).input_ids
    assert [line for line, a, b in zip(lines, wanted, found, strict=True) if a != b] == []
    assert theirs.batch_decode(found, skip_special_tokens=True) == [ours.decode(ids) for ids in wanted]


@pytest.fixture(scope="module")
def tokenizers(
    tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tokenizer, PreTrainedTokenizerFast]]:
    yield tokenizer, loaded(tokenizer, tmp_path_factory.mktemp("tokenizer"))


def test_unusual_lines_have_equal_ids(tokenizers: tuple[Tokenizer, PreTrainedTokenizerFast]) -> None:
    check_tokenizer(*tokenizers, [*LINES, *STRANGE, *SPECIAL])


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("mali bo\t\u2581<>/s\x85"))))
def test_random_lines_have_equal_ids(tokenizers: tuple[Tokenizer, PreTrainedTokenizerFast], lines: list[str]) -> None:
    check_tokenizer(*tokenizers, ["", *lines])


# --- the card --------------------------------------------------------------------------------------


def test_card_usage_example_works(exported: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    (exported.path.parent / "DIR").symlink_to(exported.path)
    monkeypatch.chdir(exported.path.parent)
    matter, text = card_of(exported.path)
    assert matter["library_name"] == "transformers"
    names: dict[str, Any] = {}
    exec(section(text, "Use").split("```")[1].removeprefix("python\n"), names)
    assert len(names["translations"]) == 1
