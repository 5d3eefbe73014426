"""Import of M2M-100 and NLLB models made by transformers and SentencePiece."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from command import Command
from fitting import fit
from forced import forced
from m2m import M2M
from nmt.config import Config
from nmt.config.load import dump_config
from nmt.data.manifest import read_manifest
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir, RunDir
from nmt.model.masks import Padded
from nmt.prepare.prepare import dry_run, prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.model import Saved, open_saved
from nmt.search.step import padded
from nmt.serve.models import load_directions
from nmt.share.export import ExportOptions, export
from nmt.share.public import import_model
from nmt.share.public_vocabulary import ImportOptions
from nmt.text.ids import BOS, EOS, PAD
from nmt.translate.files import translate_file
from nmt.translate.loading import Translator
from nmt.translate.types import Options
from peer import of_transformers
from sentences import sentence_pairs
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("no_coverage")

PAIRS = sentence_pairs(300)
SOURCES, TARGETS = [[pair[side] for pair in PAIRS] for side in (0, 1)]
SCRIPTS = [
    "  Der   Hund", "\ufb01nden \xbd \uff21\uff50fel", "na\xefve e\u0301", "Hund\tKatze", "\u0645\u0631\u062d",
    "\u4f60\u597d \u4e16\u754c", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f600 Hund", "1.234,5 %",
]  # fmt: skip
TAGGED = ["Hund</s>Katze <unk> <pad>", "deu_Latn __de__ <mask>"]  # which are text here
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
    import_model(ImportOptions(str(folder / "model"), folder / "run", languages=(src, tgt, "fr")))
    model = of_transformers("M2M100ForConditionalGeneration").from_pretrained(folder / "model").eval()
    tokenizer = kind.tokenizer(folder / "model", *theirs)
    tag = tokenizer.convert_tokens_to_ids(tgt if kind.is_nllb else f"__{tgt}__")
    return Public(folder / "model", folder / "run", src, tgt, open_saved(folder / "run"), model, tokenizer, tag)


def check_ids(saved: Saved, tokenizer: Any, src: str, tgt: str, lines: list[str]) -> None:
    """Check that a tokenizer of transformers gives the ids of a run, for sources and targets."""
    imported = saved.tokenizers.imported
    assert imported is not None and imported.languages is not None
    numbers = imported.original_rows(0)
    for side, language in (("text", src), ("text_target", tgt)):
        found = tokenizer(**{side: lines})["input_ids"]
        wanted = [[*map(numbers.__getitem__, row), 2] for row in saved.tokenizers[language].encode_all(lines)]
        assert [line for line, a, b in zip(lines, wanted, found, strict=True) if a != b] == []
        assert {row[0] for row in found} == {imported.pieces[0].index(imported.languages[language])}


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
    assert len({*wanted}) > 20
    chosen = translator.towards(public.tgt, public.src)
    ours, theirs = (chosen.score(zip(lines, texts, strict=True)) for texts in (translations, wanted))
    is_equal = [
        text == other or abs(a.log_prob - b.log_prob) < 1e-3
        for text, other, a, b in zip(translations, wanted, ours, theirs, strict=True)
    ]
    assert sum(is_equal) >= 59  # of two equal hypotheses, either may be found
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


def test_export_without_other_files_gives_equal_ids_and_translations(public: Public, tmp_path: Path) -> None:
    run, folder = tmp_path / "pair", tmp_path / "alone" / "out"
    import_model(ImportOptions(str(public.folder), run, direction=f"{public.src}-{public.tgt}"))
    export(ExportOptions(run), folder, "transformers")
    tokenizer = of_transformers("AutoTokenizer").from_pretrained(folder)
    model = of_transformers("AutoModelForSeq2SeqLM").from_pretrained(folder).eval()
    check_ids(open_saved(run), tokenizer, public.src, public.tgt, [*SOURCES, *SCRIPTS, *TAGGED])
    check_ids(open_saved(run), tokenizer, public.src, public.tgt, TARGETS)
    theirs = ("deu_Latn", "eng_Latn") if "_" in public.tgt else (public.src, public.tgt)
    back = of_transformers("AutoTokenizer").from_pretrained(folder, src_lang=theirs[1], tgt_lang=theirs[0])
    check_ids(open_saved(run), back, public.tgt, public.src, SCRIPTS)

    lines = SOURCES[:60]
    translator = Translator.load(run, precision="float32")
    scores = forced(model, tokenizer, lines, tokenizer(text_target=TARGETS[:60])["input_ids"], n_tags=1)
    own = translator.score(zip(lines, TARGETS[:60], strict=True))
    assert [each.log_prob for each in scores] == pytest.approx([each.log_prob for each in own], abs=1e-3)

    settings = translator.search_settings(SEARCH | {"beam": 1, "patience": 1.5})
    found = [[*best.parts[0].tgt_ids] for best, *_ in translator.translate_lines(lines, settings)]
    wanted = public.original(found)  # without ends, which are no choice at the limit of length
    with torch.no_grad():
        batch = tokenizer(lines, padding=True, return_tensors="pt")
        generated = model.generate(**batch, num_beams=1, max_length=64, bad_words_ids=[[1], [3]]).tolist()
    leads = [each.lead for each in forced(model, tokenizer, lines, wanted, n_tags=1)]
    clear = [i for i, lead in enumerate(leads) if lead > 1e-3]
    assert len(clear) > 20 and [generated[i][1 : len(wanted[i]) + 1] for i in clear] == [wanted[i] for i in clear]


def test_exports_are_equal(public: Public, tmp_path: Path) -> None:
    export(ExportOptions(public.run), tmp_path / "out", "transformers")
    import_model(ImportOptions(str(tmp_path / "out"), tmp_path / "again", languages=(public.src, public.tgt, "fr")))
    first, second = (load_weights(RunDir(run).step(0)) for run in (public.run, tmp_path / "again"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert open_saved(tmp_path / "again").tokenizers.imported == public.saved.tokenizers.imported
    model = of_transformers("M2M100ForConditionalGeneration").from_pretrained(tmp_path / "out")
    theirs = public.model.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in model.state_dict().items())
    assert model.generation_config.forced_bos_token_id == public.tag
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-nc-4.0" in card and ">>to=" not in card


LISTS = {
    "extra_special_tokens", "additional_special_tokens", "added_tokens_decoder", "added_tokens.json", "language_codes",
}  # fmt: skip


def without_tags(folder: Path, kept: str) -> None:
    """Remove the tags of a saved tokenizer from everything in LISTS but `kept`."""
    path = folder / "tokenizer_config.json"
    about = {name: value for name, value in read(path).items() if name == kept or name not in LISTS}
    path.write_text(json.dumps(about), encoding="utf-8")
    for name in LISTS - {kept}:
        (folder / name).unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.fixture
def fine_tuned(public: Public, tmp_path: Path) -> Path:
    """Return the public model as transformers saves it after fine-tuning."""
    folder = tmp_path / "tuned"
    public.model.save_pretrained(folder)
    of_transformers("AutoTokenizer").from_pretrained(public.folder).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kept", sorted(LISTS - {"additional_special_tokens"}))
def test_tags_are_found_where_transformers_saves_them(kept: str, public: Public, fine_tuned: Path) -> None:
    is_nllb = "_" in public.tgt
    assert (fine_tuned / "sentencepiece.bpe.model").exists() is not is_nllb, "what transformers saves has changed"
    without_tags(fine_tuned, kept)
    import_model(ImportOptions(str(fine_tuned), fine_tuned / "run", languages=(public.src, public.tgt, "fr")))
    theirs = ("deu_Latn", "eng_Latn") if is_nllb else (public.src, public.tgt)
    tokenizer = of_transformers("AutoTokenizer").from_pretrained(fine_tuned, src_lang=theirs[0], tgt_lang=theirs[1])
    check_ids(open_saved(fine_tuned / "run"), tokenizer, public.src, public.tgt, [*SOURCES, *TARGETS, *SCRIPTS])
    found, wanted = open_saved(fine_tuned / "run").tokenizers.imported, public.saved.tokenizers.imported
    assert found is not None and wanted is not None and found.languages == wanted.languages


def test_ids_of_listed_tags_precede_their_order(public: Public, tmp_path: Path) -> None:
    """NLLB as transformers 4 saves it: `<mask>` stands between the pieces and the tags, and is not in the list."""
    folder = tmp_path / "model"
    shutil.copytree(public.folder, folder)
    (folder / "tokenizer.json").unlink(missing_ok=True)
    imported = public.saved.tokenizers.imported
    assert imported is not None and imported.languages is not None
    tags = [*dict.fromkeys(imported.languages.values())]
    start = imported.pieces[0].index(tags[0])
    rows = {start + i: tag for i, tag in enumerate(["<mask>", *tags])}
    decoder = {row: {"content": tag, "special": True} for row, tag in rows.items()}
    about = {"additional_special_tokens": tags, "added_tokens_decoder": decoder}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    import_model(ImportOptions(str(folder), tmp_path / "run", direction=f"{public.src}-{public.tgt}"))
    found = open_saved(tmp_path / "run").tokenizers.imported
    assert found is not None and {row: found.pieces[0][row] for row in rows} == rows


def without_merge(content: dict[str, Any]) -> None:
    """Remove one of the ways in which a piece is merged, so that SentencePiece would merge more."""
    merges = [tuple(merge) for merge in content["model"]["merges"]]
    ways = Counter(map("".join, merges))
    content["model"]["merges"].remove([*next(merge for merge in merges if ways["".join(merge)] > 1)])


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "merge": without_merge,
    "no merges": lambda content: content["model"].pop("merges"),
    "list of pieces": lambda content: content["model"].update(vocab=[["a", 0.0]]),
    "gap in ids": lambda content: content["model"]["vocab"].update(more=9999),
    "other normalizer": lambda content: content.update(normalizer={"type": "Lowercase"}),
    "broken normalizer": lambda content: content["normalizer"]["normalizers"][0].update(precompiled_charsmap="AAAA"),
    "long merge": lambda content: content["model"]["merges"].append(["x" * 10**6, "y"]),
    "infinite id": lambda content: content["added_tokens"][-1].update(id=float("inf")),
    "tag without id": lambda content: content["added_tokens"][-1].pop("id"),
    "id of two tags": lambda content: content["added_tokens"][-1].update(id=content["added_tokens"][-2]["id"]),
    "list of models": lambda content: content.update(model=[1]),
}


@pytest.mark.parametrize("public", ["nllb"], indirect=True)
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_tokenizer_json_is_refused_in_one_line(name: str, public: Public, tmp_path: Path, nmt: Command) -> None:
    folder = tmp_path / "model"
    shutil.copytree(public.folder, folder)
    (folder / "sentencepiece.bpe.model").unlink()
    content = read(folder / "tokenizer.json")
    DAMAGES[name](content)
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    refused = nmt("import", folder, "--direction", f"{public.src}-{public.tgt}", "--run", tmp_path / "run")
    assert (refused.status, refused.err.count("\n")) == (2, 1), refused.err
    assert str(folder) in refused.err and not (tmp_path / "run").exists()


def test_ctranslate2_gives_equal_translations(public: Public, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(ConfigError, match="--shortlist"):
        export(ExportOptions(public.run, shortlist=True), tmp_path / "listed", "ctranslate2")
    assert not (tmp_path / "listed").exists()
    exported = export(ExportOptions(public.run), tmp_path / "out", "ctranslate2")
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


def test_characters_that_vocabulary_lacks_are_reported_unless_rare(
    public: Public, tmp_path: Path, nmt: Command
) -> None:
    config = one_direction(public, tmp_path)
    text = SOURCES[:200]
    respelled = [line.replace("e", "\u06ce").replace("n", "\u06a4") for line in text]
    warnings = []
    for lines in ([*text[:199], "\U0001f600 Hund"], respelled):
        path = tmp_path / f"train.{public.src}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        prepare(config, tmp_path / "data", public.run, echo=lambda _: None)
        dry_run(config, report=tmp_path / "report.json", echo=lambda _: None, tokenizer_from=public.run)
        warnings.append(read_manifest(DataDir(tmp_path / "data")).warnings)
        assert read(tmp_path / "report.json")["warnings"] == warnings[-1]
    assert warnings[0] == []
    [warning] = [each for each in warnings[1] if each.startswith(f"{public.src}:")]
    assert 0 < warning.index("\u06ce") < warning.index("\u06a4")
    (tmp_path / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    done = nmt("prepare", "--config", tmp_path / "config.yaml", "--dry-run", "--tokenizer-from", public.run)
    assert done.status == 0 and "\u06ce" in done.out, done.err


def test_lines_with_characters_that_vocabulary_lacks_are_counted(
    public: Public, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator.load(public.run, precision="float32").towards(public.tgt, public.src)
    source = tmp_path / "text"
    source.write_text("Hund\n\u06a4\u06b5\u06ce\nHund \u06a4\n", encoding="utf-8")
    translate_file(translator, source, tmp_path / "out", Options(translator.search_settings({"beam": 1})))
    assert "2 lines with characters that the vocabulary lacks" in capsys.readouterr().err


def test_cut_model_is_adapted_in_one_direction_and_exported(public: Public, tmp_path: Path) -> None:
    languages = (public.src, public.tgt)
    texts = [tmp_path / f"dev.{language}" for language in languages]
    one_direction(public, tmp_path)
    start = tmp_path / "cut"
    imported = import_model(ImportOptions(str(public.folder), start, languages=languages, keep_pieces_of=texts))
    assert imported.n_removed > 5
    model = open_saved(start).config.model.model_dump() | {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    training = {"init_from": str(start), "max_steps": 4, "warmup_steps": 1}
    config = one_direction(public, tmp_path, model=model, training=training)
    prepare(config, tmp_path / "data", tokenizer_from=start, echo=lambda _: None)
    fit(config, tmp_path / "data", tmp_path / "run")
    before, after = load_weights(RunDir(start).step(0)), load_weights(RunDir(tmp_path / "run").step(4))
    assert torch.equal(before["output_bias"], after["output_bias"])
    assert not torch.equal(before["encoder.embedding.weight"], after["encoder.embedding.weight"])
    request = ExportOptions(tmp_path / "run")
    if "_" in public.tgt:
        with pytest.raises(ConfigError, match="NLLB"):
            export(request, tmp_path / "out", "transformers")
        return
    export(request, tmp_path / "out", "transformers")
    tokenizer = of_transformers("AutoTokenizer").from_pretrained(tmp_path / "out")
    theirs = of_transformers("M2M100ForConditionalGeneration").from_pretrained(tmp_path / "out").eval()
    assert theirs.config.pad_token_id == 1, "after which its positions begin"
    check_ids(open_saved(tmp_path / "run"), tokenizer, public.src, public.tgt, [*SOURCES, *TARGETS, *SCRIPTS])
    lines, translations = SOURCES[200:212], TARGETS[200:212]
    own = Translator.load(tmp_path / "run", precision="float32").score(zip(lines, translations, strict=True))
    scores = forced(theirs, tokenizer, lines, tokenizer(text_target=translations)["input_ids"], n_tags=1)
    assert [each.log_prob for each in scores] == pytest.approx([each.log_prob for each in own], abs=1e-3)


def test_choice_of_languages_is_checked(public: Public, tmp_path: Path, nmt: Command) -> None:
    folder = str(public.folder)
    with pytest.raises(DataError, match="--languages"):
        import_model(ImportOptions(folder, tmp_path / "run"))
    refused = nmt("import", folder, "--languages", public.src, "--run", tmp_path / "run")
    assert refused.status == 2 and "--languages" in refused.err and not (tmp_path / "run").exists()
    with pytest.raises(DataError, match="--to"):
        import_model(ImportOptions(folder, tmp_path / "run", direction=f"{public.src}-{public.tgt}", to="fr"))
    with pytest.raises(ConfigError, match="--from"):
        Translator.load(public.run, to=public.tgt)


CODES = {
    "ar": "arb_Arab", "fa": "pes_Arab", "zh": "zho_Hans", "nb": "nob_Latn", "ms": "zsm_Latn", "et": "est_Latn",
    "ps": "pbt_Arab", "deu": "deu_Latn", "zho-Hant": "zho_Hant", "ku-Arab": "ckb_Arab", "ku_Latn": "kmr_Latn",
    "AZ_arab": "azb_Arab", "min": "min_Latn", "ajp_Arab": "ajp_Arab", "apc_Arab": "apc_Arab", "ajp": "ajp_Arab",
    "apc": "apc_Arab", "zh_TW": "zho_Hant", "zh_CN": "zho_Hans", "pt-BR": "por_Latn", "de_AT": "deu_Latn",
    "ar_EG": "arb_Arab", "az_IR": "azb_Arab",
}  # fmt: skip


@pytest.mark.parametrize("public", ["nllb"], indirect=True)
def test_codes_of_two_or_three_letters_and_scripts_choose_language(
    public: Public, tmp_path: Path, nmt: Command
) -> None:
    done = nmt("import", public.folder, "--languages", ",".join(CODES), "--run", tmp_path / "run")
    assert done.status == 0, done.err
    imported = open_saved(tmp_path / "run").tokenizers.imported
    assert imported is not None and imported.languages is not None
    assert {code: imported.languages[code.replace("-", "_")] for code in CODES} == CODES


@pytest.mark.parametrize("public", ["nllb"], indirect=True)
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("ku", {"kmr_Latn", "ckb_Arab"}),
        ("az", {"azj_Latn", "azb_Arab"}),
        ("mnw", {"mya_Mymr", "shn_Mymr"}),
        ("sr_Latn", {"srp_Cyrl", "bos_Latn", "hrv_Latn"}),
        ("no", {"nob_Latn", "nno_Latn"}),
        ("sh", {"srp_Cyrl", "bos_Latn", "hrv_Latn"}),
        ("eng_Latm", {"eng_Latn"}),
        ("engLatn", {"eng_Latn"}),
        ("lld", set()),
        ("x" * 300, set()),
    ],
)
def test_code_of_no_or_several_languages_is_refused_with_those_that_are_similar(
    code: str, named: set[str], public: Public, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=repr(code[:50])) as refused:
        import_model(ImportOptions(str(public.folder), tmp_path / "run", direction=f"{code}-{public.tgt}"))
    others = str(refused.value).replace(repr(code), "")
    assert {*re.findall("[a-z]{3}_[A-Z][a-z]{3}", others)} == named and len(others) < 200
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("public", ["m2m"], indirect=True)
def test_code_with_script_does_not_choose_language_of_other_script(public: Public, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="az"):
        import_model(ImportOptions(str(public.folder), tmp_path / "run", direction=f"az_Arab-{public.tgt}"))


@pytest.mark.parametrize(
    "chosen",
    [{"direction": "de"}, {"direction": "de-en-fr"}, {"direction": "-"}, {"languages": ("de", "")},
     {"languages": ("de", "x y")}],
    ids=str,
)  # fmt: skip
def test_choice_of_other_than_two_languages_is_refused(chosen: dict[str, Any], public: Public, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"--{next(iter(chosen))}"):
        import_model(ImportOptions(str(public.folder), tmp_path / "run", **chosen))


def test_vocabulary_without_tags_is_refused(public: Public, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in public.folder.iterdir():
        if path.name not in ("special_tokens_map.json", "tokenizer_config.json", "tokenizer.json"):
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="tags of languages"):
        import_model(ImportOptions(str(folder), tmp_path / "run", direction=f"{public.src}-{public.tgt}"))
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    with pytest.raises(DataError, match="t5"):
        import_model(ImportOptions(str(folder), tmp_path / "run"))


def test_size_of_vocabulary_that_weights_contradict_is_refused(public: Public, tmp_path: Path) -> None:
    folder = shutil.copytree(public.folder, tmp_path / "model")
    content = read(folder / "config.json") | {"vocab_size": 10**9}
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=r"vocab_size is 1000000000 in config.json, but .* model\.safetensors"):
        import_model(ImportOptions(str(folder), tmp_path / "run", direction=f"{public.src}-{public.tgt}"))
