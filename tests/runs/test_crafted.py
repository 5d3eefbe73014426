"""Crafted runs and exports, with valid checksums but invalid content.

A command says in a line what is the matter, whatever a file holds; no traceback, no waiting.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import struct
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from safetensors.torch import save

from command import Command, Result
from export_run import write_run
from fuzzed import check, no_hang, put_somewhere
from kept_run import quicken
from nmt.errors import CheckpointError, DataError
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.checkpoint import parse_tensors
from nmt.runs.state import TrainState, load_state, state_text
from nmt.share.export import ExportOptions, export
from nmt.text.tokenizer import LosslessTokenizer
from tiny_run import tiny_tokenizer

pytestmark = pytest.mark.usefixtures("no_coverage")

WEIGHTS = Path("weights.safetensors")


def digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def seal(file: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Write state.json or translator.json once more, with right checksums, then a change, then a right seal."""
    content = json.loads(file.read_text())
    del content["seal"]
    for name in content["checksums"]:
        content["checksums"][name] = hashlib.sha256((file.parent / name).read_bytes()).hexdigest()
    change(content)
    file.write_text(json.dumps({**content, "seal": digest(content)}))


def refused(result: Result, said: str) -> None:
    """Check that the command ended with one line with this message."""
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), result
    assert re.match(f"nmt: .*{said}", result.err), result.err


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its export."""
    folder = tmp_path_factory.mktemp("made")
    export(ExportOptions(write_run(folder / "run")), folder / "export", "folder")
    (folder / "in").write_text("mali ta\nbore\n")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> RunDir:
    return RunDir(shutil.copytree(made / "run", tmp_path / "run"))


@pytest.fixture
def exported(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made / "export", tmp_path / "export")


@pytest.fixture
def trained(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A copy of a run that can go on."""
    quicken(monkeypatch)
    return RunDir(shutil.copytree(whole, tmp_path / "trained"))


# --- weights --------------------------------------------------------------------------------------

BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3": 8, "BOOL": 8, "I8": 8, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "C64": 64, "F64": 64, "I64": 64,
}  # fmt: skip


def file_of(header: object, data: bytes = b"") -> bytes:
    """A safetensors file."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def in_numbers_of(kind: str, n_bits: int, data: bytes) -> bytes:
    """The same names and shapes, zeros of another type."""
    (size,) = struct.unpack("<Q", data[:8])
    header, end = json.loads(data[8 : 8 + size]), 0
    for entry in header.values():
        start, end = end, end + -(-torch.Size(entry["shape"]).numel() * n_bits // 8)
        entry |= {"dtype": kind, "data_offsets": [start, end]}
    return file_of(header, bytes(end))


@pytest.mark.parametrize(("kind", "n_bits"), BITS.items())
def test_tensors_of_another_type_raise(kind: str, n_bits: int) -> None:
    data = in_numbers_of(kind, n_bits, save({"w": torch.ones(8), "none": torch.ones(0)}))
    with pytest.raises(CheckpointError, match=r"^weights\.safetensors: damaged: .*numbers of type \w+, not \w+$"):
        parse_tensors(data, WEIGHTS)


@pytest.mark.parametrize(
    "data",
    [
        b"", bytes(8), file_of([]), file_of({"w": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}),
        file_of({"w": {"dtype": "X", "shape": [], "data_offsets": [0, 0]}}), file_of({"w": None}),
        file_of({"w": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
    ],
)  # fmt: skip
def test_invalid_tensor_header_raises(data: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^weights\.safetensors: damaged: "):
        parse_tensors(data, WEIGHTS)


def test_weights_of_another_type_in_run_and_export_raise(run: RunDir, exported: Path, made: Path, nmt: Command) -> None:
    saved = run.step(7)
    saved.weights.write_bytes(in_numbers_of("F4", 4, saved.weights.read_bytes()))
    seal(saved.state)
    refused(nmt("translate", "--run", run.path, "--input", made / "in"), "numbers of type F4, not F32$")
    weights = exported / WEIGHTS
    weights.write_bytes(in_numbers_of("F8_E8M0", 8, weights.read_bytes()))
    seal(exported / "translator.json")
    refused(nmt("translate", "--model", exported, "--input", made / "in"), "numbers of type")


# --- seals ----------------------------------------------------------------------------------------

ODD = [None, [], "x", 3]


def put(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    """A change of what is sealed; None leaves the key out."""
    return lambda content: content.pop(key) if value is None else content.update({key: value})


@pytest.mark.parametrize(
    "value", [*ODD, {}, {"weights.safetensors": 3}, {"tokenizer/\0": ""}, {"tokenizer/\ud800": ""}]
)
def test_invalid_checksums_of_export_raise(value: object, exported: Path, made: Path, nmt: Command) -> None:
    seal(exported / "translator.json", put("checksums", value))
    refused(nmt("translate", "--model", exported, "--input", made / "in"), "damaged")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step", -1), ("step", "4"), ("epoch", 10**30), ("update_in_epoch", 0.5), ("seconds", float("nan")),
        ("seconds", 1e300), ("best_weights", "best"), ("log_bytes", -1), ("log_waiting", "x"), ("tally", []),
        ("tally", {"loss": "x"}), ("scaler", 3), ("loss_is_high", 1), ("best_step", []),
    ],
)  # fmt: skip
def test_invalid_state_raises(key: str, value: object, tmp_path: Path) -> None:
    saved = CheckpointDir(tmp_path)
    saved.state.write_text(state_text({}, {}))
    assert load_state(saved) == TrainState()
    saved.state.write_text(state_text({}, {key: value}))
    with pytest.raises(CheckpointError, match=rf"state\.json: damaged: state\.{key}.* has an invalid value$"):
        load_state(saved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        *(
            (changes, "damaged: its position is outside the training text")
            for changes in ({"window": 1}, {"stage": 1}, {"drawn": [1, 2, 3]}, {"stage_pairs": 1 << 52})
        ),
    ],
)
def test_resume_from_invalid_state_raises(changes: dict[str, object], said: str, trained: RunDir, nmt: Command) -> None:
    for file in trained.checkpoints.glob("*/state.json"):
        seal(file, lambda content: content["state"].update(changes))
    result = nmt("train", "--resume", "--run", trained.path)
    assert result.status == 2 and f"{said}; trying the previous checkpoint" in result.err
    assert result.err.splitlines()[-1].startswith(f"nmt: {trained.path}: no intact checkpoint of this version")


# --- tokenizers -----------------------------------------------------------------------------------


@cache
def _model() -> bytes:
    return tiny_tokenizer().model


def _filled(new: bytes, match: re.Match[bytes]) -> bytes:
    return (match[1] if match.re.groups else b"") + new


def replaced(*pairs: tuple[bytes, bytes]) -> bytes:
    """A tokenizer of ours; what a pattern matches but for its group is replaced by other bytes."""
    model = _model()
    for pattern, new in pairs:
        model, n = re.subn(pattern, partial(_filled, new), model, count=1, flags=re.DOTALL)
        assert n == 1, pattern
    return model


@pytest.mark.parametrize(
    "pairs",
    [
        [(rb"<reserved_3>", b"<reserved_\xff>")],  # not UTF-8
        [(rb"(\x05\xe2\x96)\x81", b"\xff")],
        [(rb"(<unk>.{5}\x18)\x02", b"\1"), (rb"(<reserved_9>.{5}\x18)\x03", b"\2")],  # another unknown piece
        [(rb"(<s>.{5}\x18)\x03", b"\1")],  # a special piece that text can have
        [(rb"<0x50>", b"<0x5X>"), (rb"<0x51>", b"<0x50>"), (rb"<0x5X>", b"<0x51>")],  # bytes for each other
    ],
)  # fmt: skip
def test_tokenizer_of_other_pieces_raises(pairs: list[tuple[bytes, bytes]]) -> None:
    LosslessTokenizer(replaced())
    with pytest.raises(DataError, match="a SentencePiece model"):
        LosslessTokenizer(replaced(*pairs))


@hypothesis_settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_tokenizer_raises_or_works(places: list[tuple[float, int]]) -> None:
    model = bytearray(replaced())
    for place, value in places:
        model[int(place * len(model))] = value
    with no_hang():
        try:
            tokenizer = LosslessTokenizer(bytes(model))
        except DataError:
            return
        ids = tokenizer.encode_all(["mali ta bore", "Ähm \U0001f600\u2581 \t.", "x" * 300])
        assert all(0 <= each < len(tokenizer) for row in ids for each in row)
        for row in [*ids, list(range(len(tokenizer)))]:
            tokenizer.decode(row)
            tokenizer.pieces(row)


# --- anything -------------------------------------------------------------------------------------

VALUES = [None, True, -1, 0, 10**30, 0.5, float("nan"), "", "x", "a\0b", "\ud800", "../x", [], {}, [[]], {"a": 1}]


def mutate(tree: Any, rng: random.Random) -> None:
    """Put another value in some place of a tree, or leave one out."""
    put_somewhere(tree, rng.choice(VALUES), rng.choice)


@hypothesis_settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32), what=st.sampled_from(["state", "run", "selected", "translator", "weights"]))
def test_mutated_metadata_raises_one_line_error(
    seed: int, what: str, made: Path, tmp_path_factory: pytest.TempPathFactory, nmt: Command
) -> None:
    rng = random.Random(seed)
    folder = shutil.copytree(made, tmp_path_factory.mktemp("any") / "made")
    run = RunDir(folder / "run")
    saved = run.step(7)
    match what:
        case "state":
            seal(saved.state, lambda content: mutate(content, rng))
        case "run":
            info = json.loads(run.info.read_text())
            mutate(info, rng)
            run.info.write_text(json.dumps(info))
        case "selected":
            selected = {"best_step": 7, "weights": "raw", "reason": "", "average_steps": [7], "finished_step": 7}
            mutate(selected, rng)
            run.selected.write_text(json.dumps(selected))
        case "translator":
            seal(folder / "export" / "translator.json", lambda content: mutate(content, rng))
        case "weights":
            data = saved.weights.read_bytes()
            (size,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8 : 8 + size])
            mutate(header, rng)
            saved.weights.write_bytes(file_of(header, data[8 + size :]))
            seal(saved.state)
    where = ("--model", folder / "export") if what == "translator" else ("--run", run.path)
    with no_hang():
        check(nmt("translate", *where, "--input", made / "in", "--beam", "1"))
    shutil.rmtree(folder.parent)
