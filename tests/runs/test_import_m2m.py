"""Import of M2M-100 and NLLB models made by transformers and SentencePiece."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from command import Command
from nmt.config import Config
from nmt.errors import ConfigError, DataError
from nmt.layout import RunDir
from nmt.model.masks import Padded
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.model import Saved, open_saved
from nmt.search.step import padded
from nmt.serve.models import load_directions
from nmt.share.export import Request as ExportRequest
from nmt.share.export import export
from nmt.share.public import Request, import_model
from nmt.text.tokenizer import BOS, EOS, PAD
from nmt.training.loop import fit
from nmt.translate.translator import Translator
from peer import of_transformers
from scripts.measure.m2m import M2M
from sentences import sentence_pairs
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("no_coverage")

PAIRS = sentence_pairs(300)
SOURCES, TARGETS = [[pair[side] for pair in PAIRS] for side in (0, 1)]
SEARCH: dict[str, Any] = {"patience": 0.0, "max_length_ratio": 0.0, "max_length_offset": 62}


@dataclass(frozen=True)
class Public:
    """A public model, the run made of it, and what transformers makes of it."""

    folder: Path
    run: Path
    src: str
    tgt: str
    saved: Saved
    model: Any
    tokenizer: Any
    tag: int
    """The id of the tag of the target language."""

    def original(self, rows: list[list[int]]) -> list[list[int]]:
        """Return ids with the numbers of the public model."""
        assert self.saved.tokenizers.imported is not None
        numbers = self.saved.tokenizers.imported.original_rows(0)
        return [[numbers[i] or 0 for i in row] for row in rows]


@pytest.fixture(scope="module", params=["m2m", "nllb"])
def public(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Public:
    folder = tmp_path_factory.mktemp("public")
    kind = M2M(is_nllb=request.param == "nllb", updates=100)
    theirs = ("deu_Latn", "eng_Latn") if kind.is_nllb else ("de", "en")
    kind.write(folder / "model", dict(zip(theirs, (SOURCES, TARGETS), strict=True)))
    src, tgt = "de", theirs[1]  # a short name is known, too
    import_model(Request(str(folder / "model"), folder / "run", languages=(src, tgt, "fr")))
    model = of_transformers("M2M100ForConditionalGeneration").from_pretrained(folder / "model").eval()
    tokenizer = kind.tokenizer(folder / "model", *theirs)
    tag = tokenizer.convert_tokens_to_ids(tgt if kind.is_nllb else f"__{tgt}__")
    return Public(folder / "model", folder / "run", src, tgt, open_saved(folder / "run"), model, tokenizer, tag)


def test_ids_and_logits_are_equal(public: Public) -> None:
    src, tgt = (
        public.saved.tokenizers[name].encode_all(lines)
        for name, lines in ((public.src, SOURCES), (public.tgt, TARGETS))
    )
    end = public.tokenizer.eos_token_id
    assert [[*row, end] for row in public.original(src)] == public.tokenizer(SOURCES)["input_ids"]
    assert [[*row, end] for row in public.original(tgt)] == public.tokenizer(text_target=TARGETS)["input_ids"]
    src, tgt = src[:60], tgt[:60]
    ours = public.saved.transformer()
    source, target = padded([[*row, EOS] for row in src]), padded([[BOS, *row] for row in tgt])
    inputs = padded([[end, *row] for row in public.original(tgt)])
    with torch.no_grad():
        hidden = ours(source, Padded(source != PAD), target, Padded(target != PAD))
        assert ours.output_bias is not None and not ours.output_bias.requires_grad
        logits = hidden @ ours.output_weight.T + ours.output_bias
        batch = public.tokenizer.pad({"input_ids": [[*row, end] for row in public.original(src)]}, return_tensors="pt")
        theirs = public.model(**batch, decoder_input_ids=torch.where(target == PAD, 1, inputs)).logits
    assert public.saved.tokenizers.imported is not None
    rows = public.saved.tokenizers.imported.original_rows(0)
    is_token = target != PAD
    ids = [rows.index(row) for row in range(theirs.size(-1))]
    torch.testing.assert_close(logits[..., ids][is_token], theirs[is_token], atol=1e-4, rtol=0)
    assert logits.logsumexp(-1)[is_token].sub(theirs.logsumexp(-1)[is_token]).abs().max() < 1e-4


def test_beam_search_is_equal(public: Public) -> None:
    lines = SOURCES[:60]
    with torch.no_grad():
        found = public.model.generate(
            **public.tokenizer(lines, padding=True, return_tensors="pt"), forced_bos_token_id=public.tag,
            max_length=64, early_stopping="never", bad_words_ids=[[1], [3]],
        )  # fmt: skip
    wanted = public.tokenizer.batch_decode(found, skip_special_tokens=True)
    translator = Translator.load(public.run, precision="float32")
    translations = translator.translate(lines, to=public.tgt, source=public.src, **SEARCH)
    assert len({*wanted}) > 20 and sum(map(str.__eq__, translations, wanted)) >= 59
    chosen = translator.towards(public.tgt, public.src)
    [best, *_], *_ = chosen.translate_lines(lines[:1], chosen.search_settings(SEARCH))
    [scored] = chosen.score([(lines[0], best.text)])
    assert scored.log_prob == pytest.approx(best.log_prob, abs=1e-4) and scored.log_probs[0] == 0.0


def test_steps_of_a_pivot_read_their_source_languages(public: Public) -> None:
    translator = Translator.load(public.run, precision="float32")
    first = translator.translate(SOURCES[:20], to=public.tgt, source=public.src, **SEARCH)
    wanted = translator.translate(first, to="fr", source=public.tgt, **SEARCH)
    wrong = translator.translate(first, to="fr", source=public.src, **SEARCH)
    found = translator.translate(SOURCES[:20], to="fr", source=public.src, via=public.tgt, **SEARCH)
    assert found == wanted != wrong


def test_exports_are_equal(public: Public, tmp_path: Path) -> None:
    export(ExportRequest(public.run), tmp_path / "out", "transformers")
    languages = (public.src, public.tgt, "fr")
    if (public.folder / "tokenizer.json").exists():
        tokenizer = of_transformers("AutoTokenizer").from_pretrained(public.folder, src_lang="deu_Latn")
    else:
        tokenizer = of_transformers("AutoTokenizer").from_pretrained(tmp_path / "out", src_lang=public.src)
        import_model(Request(str(tmp_path / "out"), tmp_path / "again", languages=languages))
        first, second = (load_weights(RunDir(run).step(0)) for run in (public.run, tmp_path / "again"))
        assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert tokenizer(SOURCES)["input_ids"] == public.tokenizer(SOURCES)["input_ids"]
    model = of_transformers("M2M100ForConditionalGeneration").from_pretrained(tmp_path / "out")
    theirs = public.model.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in model.state_dict().items())
    assert model.generation_config.forced_bos_token_id == public.tag
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-nc-4.0" in card and ">>to=" not in card


def test_ctranslate2_gives_equal_translations(public: Public, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(ConfigError, match="--shortlist"):
        export(ExportRequest(public.run, shortlist=True), tmp_path / "listed", "ctranslate2")
    assert not (tmp_path / "listed").exists()
    exported = export(ExportRequest(public.run), tmp_path / "out", "ctranslate2")
    assert exported.comparison is not None and exported.comparison.difference < 1e-4


def test_server_offers_all_directions_of_run(public: Public) -> None:
    models = load_directions(public.run, "native", int8=False, overrides=[])
    assert sum(f"{model.source}-{model.target}" == f"{public.tgt}-{public.src}" for model in models) == 1
    assert len(models) == 6


def one_direction(public: Public, folder: Path, **changes: dict[str, Any]) -> Config:
    """Return the settings of a corpus in one direction, after writing its text."""
    languages = (public.src, public.tgt)
    for language, lines in zip(languages, (SOURCES, TARGETS), strict=True):
        for name, part in (("train", lines[:200]), ("dev", lines[200:212])):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    files = {name: {"files": {each: f"{name}.{each}" for each in languages}} for name in ("train", "dev")}
    data = {"direction": f"{public.src}-{public.tgt}", "train": [files["train"]], "valid": files["dev"], "test": {}}
    return tiny_settings(folder, data=data, **changes)


def test_run_of_several_languages_is_scored_in_both_directions_of_the_data(
    public: Public, tmp_path: Path, nmt: Command
) -> None:
    prepare(one_direction(public, tmp_path), tmp_path / "data", tokenizer_from=public.run, echo=lambda _: None)
    shutil.copytree(public.run, tmp_path / "other")
    wanted = {f"{public.src}-{public.tgt}", f"{public.tgt}-{public.src}"}
    for command in ("evaluate", "--run", public.run), ("compare", public.run, tmp_path / "other"):
        options = ("--data", tmp_path / "data", "--split", "valid", "--beam", "1")
        done = nmt(*command, *options, "--format=json")
        assert done.status == 0, done.err
        assert {each.get("direction") or "-".join(each["languages"]) for each in json.loads(done.out)} == wanted
        refused = nmt(*command, *options, "--to", "fr", "--from", public.src)
        assert refused.status == 2 and f"{public.src}-fr" in refused.err and "fr was trained" not in refused.err


def test_cut_model_is_adapted_in_one_direction_and_exported(public: Public, tmp_path: Path) -> None:
    languages = (public.src, public.tgt)
    texts = [tmp_path / f"dev.{language}" for language in languages]
    one_direction(public, tmp_path)
    start = tmp_path / "cut"
    imported = import_model(Request(str(public.folder), start, languages=languages, keep_pieces_of=texts))
    assert imported.n_removed > 5
    model = open_saved(start).config.model.model_dump() | {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    training = {"init_from": str(start), "max_steps": 4, "warmup_steps": 1, "peak_lr": 1e-3}
    config = one_direction(public, tmp_path, model=model, training=training)
    prepare(config, tmp_path / "data", tokenizer_from=start, echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "run")
    before, after = load_weights(RunDir(start).step(0)), load_weights(RunDir(tmp_path / "run").step(4))
    assert torch.equal(before["output_bias"], after["output_bias"])
    assert not torch.equal(before["encoder.embedding.weight"], after["encoder.embedding.weight"])
    request = ExportRequest(tmp_path / "run")
    if "_" in public.tgt:
        with pytest.raises(ConfigError, match="NLLB"):
            export(request, tmp_path / "out", "transformers")
        return
    export(request, tmp_path / "out", "transformers")
    tokenizer = of_transformers("AutoTokenizer").from_pretrained(tmp_path / "out")
    theirs = of_transformers("M2M100ForConditionalGeneration").from_pretrained(tmp_path / "out").eval()
    assert theirs.config.pad_token_id == 1, "after which its positions begin"
    lines = SOURCES[200:212]
    with torch.no_grad():
        found = theirs.generate(
            **tokenizer(lines, padding=True, return_tensors="pt"), max_length=64, num_beams=4, early_stopping="never",
            bad_words_ids=[[1], [3]],
        )  # fmt: skip
    translator = Translator.load(tmp_path / "run", precision="float32")
    wanted = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert translator.translate(lines, **SEARCH | {"beam": 4}) == wanted


def test_choice_of_languages_is_checked(public: Public, tmp_path: Path, nmt: Command) -> None:
    folder = str(public.folder)
    with pytest.raises(DataError, match="--languages"):
        import_model(Request(folder, tmp_path / "run"))
    with pytest.raises(DataError, match=f"did you mean {public.tgt}"):
        import_model(Request(folder, tmp_path / "run", direction=f"{public.src}-{public.tgt}x"))
    refused = nmt("import", folder, "--languages", public.src, "--run", tmp_path / "run")
    assert refused.status == 2 and "--languages" in refused.err and not (tmp_path / "run").exists()
    with pytest.raises(DataError, match="--to"):
        import_model(Request(folder, tmp_path / "run", direction=f"{public.src}-{public.tgt}", to="fr"))
    with pytest.raises(ConfigError, match="--from"):
        Translator.load(public.run, to=public.tgt)


@pytest.mark.parametrize(
    "chosen",
    [{"direction": "de"}, {"direction": "de-en-fr"}, {"direction": "-"}, {"languages": ("de", "")},
     {"languages": ("de", "x-y")}],
    ids=str,
)  # fmt: skip
def test_choice_of_other_than_two_languages_is_refused(chosen: dict[str, Any], public: Public, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"--{next(iter(chosen))}"):
        import_model(Request(str(public.folder), tmp_path / "run", **chosen))


def test_vocabulary_without_tags_is_refused(public: Public, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in public.folder.iterdir():
        if path.name not in ("special_tokens_map.json", "tokenizer_config.json", "tokenizer.json"):
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="tags of languages"):
        import_model(Request(str(folder), tmp_path / "run", direction=f"{public.src}-{public.tgt}"))
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    with pytest.raises(DataError, match="t5"):
        import_model(Request(str(folder), tmp_path / "run"))
