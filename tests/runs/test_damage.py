"""Damaged and crafted files: a command says in a line what is wrong and changes nothing, or uses the checkpoint before.

`TABLE` has a row for each file, damage and command. Nothing in a file hangs, is executed or steers the terminal.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from safetensors.torch import save

from command import Command
from export_run import write_run
from fitting import fit
from fuzzed import check, no_hang, put_somewhere
from kept_run import Died, die_before, differences, kept, quicken, settings
from nmt.config.load import dump_config
from nmt.data.manifest import content_fingerprint, file_facts
from nmt.errors import CheckpointError, DataError
from nmt.files.document import sealed_text
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.checkpoint import load, parse_tensors, save_checkpoint
from nmt.runs.state import TrainState, load_state, state_text
from nmt.share.export import ExportOptions, export
from nmt.text.tokenizer import LosslessTokenizer
from nmt.training import resuming
from nmt.training.optim import Adam
from steering import EVIL, SHOWN, STEERING
from tiny_corpus import tiny_settings
from tiny_run import tiny_tokenizer

pytestmark = pytest.mark.usefixtures("no_coverage")

Damage = Callable[[Path], object]
WEIGHTS, OPTIMIZER, STATE = FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")
STEP = "run/checkpoints/step-00000007/"
COMMANDS = {
    "translate": "translate --run run --input in", "use": "translate --model export --input in",
    "use ctranslate2": "translate --model engine --input in", "resume": "train --resume --run run", "plot": "plot run",
    "runs": "runs .", "go on": "train --resume --run trained --data data --set training.max_steps=7",
    "train": "train --config c.yaml --data data --run new", "prepare": "prepare --config c.yaml --data new",
    "config": "config --config c.yaml",
}  # fmt: skip


def content(folder: Path) -> dict[str, object]:
    """Return what is in a folder; of links where they lead, too, if that is not without end."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 1 << 30]
    return dict.fromkeys(map(str, folder.rglob("*"))) | {str(path): path.read_bytes() for path in files}


# --- damage -----------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    """A named pipe that nobody writes to."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def zeros(path: Path) -> None:
    """An endless stream of bytes."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    """Much larger than it can be, but taking no room on the disk."""
    path.touch()
    os.truncate(path, 1 << 40)


def linked(path: Path) -> None:
    """A link to a file or folder elsewhere."""
    path.parents[1].joinpath("victim").mkdir(exist_ok=True)
    target = path.parents[1] / "victim" / path.name
    path.rename(target) if path.exists() else target.write_bytes(b"of great worth\n")
    path.symlink_to(target)


def of_bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def edited(**values: object) -> Damage:
    return of_bytes(lambda data: json.dumps(json.loads(data) | values).encode())


def flipped(data: bytes) -> bytes:
    """Flip one bit of the last number or digit."""
    place = max(data.rfind(digit) for digit in b"13579") if data[:1] == b"{" else len(data) - 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def sealed(change: Damage = lambda _: None, **values: object) -> Damage:
    """Return a damage with right checksums; `values` are changed in what is sealed, or left out if they are None."""

    def damage(path: Path) -> None:
        change(path)
        file = path.with_name(STATE if path.with_name(STATE).exists() else "translator.json")
        tree = {key: value for key, value in json.loads(file.read_text()).items() if key != "seal"}
        tree["checksums"] = {name: sha256((file.parent / name).read_bytes()).hexdigest() for name in tree["checksums"]}
        tree = {key: value for key, value in (tree | values).items() if value is not None}
        file.write_text(sealed_text(tree))

    return damage


def file_of(header: object, data: bytes = b"") -> bytes:
    """A safetensors file."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def header_of(data: bytes) -> tuple[Any, bytes]:
    """The header of a safetensors file, and the rest."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def in_numbers_of(kind: str, n_bits: int, data: bytes) -> bytes:
    """The same names and shapes, zeros of another type."""
    header, end = header_of(data)[0], 0
    for entry in header.values():
        start, end = end, end + -(-torch.Size(entry["shape"]).numel() * n_bits // 8)
        entry |= {"dtype": kind, "data_offsets": [start, end]}
    return file_of(header, bytes(end))


def renamed(data: bytes) -> bytes:
    tensors = load(data)
    return save({f"other.{name}" if name == min(tensors) else name: tensors[name] for name in tensors})


def doubled(data: bytes) -> bytes:
    return save({name: torch.cat((each, each)) if each.dim() else each for name, each in load(data).items()})


class Planted:
    """Makes a directory in the working directory when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trap",)


PICKLES: list[Damage] = [lambda path: path.write_bytes(pickle.dumps(Planted())), partial(torch.save, {"w": Planted()})]


TREE = {EVIL: 1, "data": tiny_settings(Path()).model_dump(mode="json")["data"]}
EVILS: dict[str, Damage] = {
    STEP + WEIGHTS: lambda path: save_checkpoint(CheckpointDir(path.parent), {EVIL: torch.zeros(2)}, None, {}),
    STEP + STATE: lambda path: path.write_text(json.dumps({"format": EVIL, "seal": ""})),
    "run/run.json": edited(format=EVIL),
    "run/config.yaml": lambda path: path.write_text(json.dumps(TREE)),
    "run/tokenizer": lambda path: [shutil.rmtree(path), path.mkdir(), (path / f"{EVIL}.model").touch()],
}
"""Text that steers a terminal, where a reader will name it."""


def manifested(change: Damage) -> Damage:
    """Return a damage of a data directory whose manifest has the right checksums."""

    def damage(path: Path) -> None:
        change(path)
        place = path.with_name("manifest.json")
        manifest = json.loads(place.read_text())
        place.unlink()
        files = file_facts(path.parent)
        manifest |= {"files": {name: file.model_dump() for name, file in files.items()}}
        place.write_text(json.dumps(manifest | {"fingerprint": content_fingerprint(files)}))

    return damage


SPECIAL = [(pipe, "a pipe, where a regular file is needed"), (zeros, "a device, where a regular file is needed")]
ODD: list[tuple[Damage, str]] = [*SPECIAL, (sparse, " bytes, ")]
INSTEAD = {
    "run/config.yaml": "not a run directory: it has no config.yaml", "export/translator.json": "run.json is missing",
    **dict.fromkeys(["data/train.aa.ids.npy", "data/valid.bb", "data/tokenizer/joint.model"],
                    "no such file, but the manifest says"),
}  # fmt: skip
"""What is said of a file that is no regular file, where that is as if there were none."""
OF_COMMAND = {
    "translate": ["run/run.json", "run/config.yaml", "run/selected.json", "run/tokenizer/joint.model", STEP + WEIGHTS,
                  STEP + STATE],
    "use": ["export/weights.safetensors", "export/tokenizer/joint.model", "export/config.yaml",
            "export/translator.json"],
    "train": ["data/manifest.json", "data/train.aa.ids.npy", "data/valid.bb", "data/tokenizer/joint.model"],
}  # fmt: skip
IN_PLACE = (
    "lock", "log.jsonl", "tokenizer", "checkpoints", "dev", "tensorboard", "profile", "checkpoints/average",
    "checkpoints/step-00000004", "checkpoints/step-00000099",
)  # fmt: skip
HEADERS: list[Damage] = [
    lambda path: np.save(path, np.array([{}]), allow_pickle=True),
    lambda path: np.save(path, np.zeros((2, 2), np.int64)),
    of_bytes(lambda data: data[:-8]),
    of_bytes(lambda _: b""),
]
SUM = "damaged: its checksum does not match"
CUT: list[tuple[Damage, str]] = [(of_bytes(flipped), "damaged"), (of_bytes(lambda data: data[:-1]), "damaged"),
                                 (Path.unlink, "missing or damaged")]  # fmt: skip
EXPORTED = {
    "use": ["export/config.yaml", "export/tokenizer/joint.model", f"export/{WEIGHTS}"],
    "use ctranslate2": ["engine/config.yaml", "engine/tokenizer/joint.model", "engine/model.bin", "engine/config.json",
                        "engine/shared_vocabulary.json"],
}  # fmt: skip
SEALS = [flipped, lambda data: data.replace(b'"step": 7', b'"step": 8'), lambda _: b"", lambda _: b"[]"]
INVALID: dict[str, list[dict[str, object]]] = {
    "run/run.json": [{"precision": "float31"}, {"precision": None}, {"data_dir": 5}, {"corpus": []},
                     {"auto_max_tokens": "many"}],
    "run/selected.json": [{"best_step": "x"}, {"best_step": 7, "weights": "mean"}, {"finished_step": [1]},
                          {"weights": "average", "average_steps": 3}, {"finished_by": 90}],
}  # fmt: skip
CHECKSUMS = [None, [], "x", 3, {}, {WEIGHTS: 3}, {"tokenizer/\0": ""}, {"tokenizer/\ud800": ""}]
TABLE: list[tuple[str, Damage, str, str]] = [
    *[(name, odd, command, said if odd is sparse else INSTEAD.get(name, said)) for command, names in OF_COMMAND.items()
      for name, (odd, said) in product(names, ODD)],
    *[("run/log.jsonl", odd, "plot", f"log.jsonl: {said}") for odd, said in SPECIAL],
    *[("run/log.jsonl", lambda path, odd=odd: [odd(path), odd(path.with_name("lock"))], "runs", f"log.jsonl: {said}")
      for odd, said in SPECIAL],
    ("trained/log.jsonl", pipe, "go on", f"log.jsonl: {SPECIAL[0][1]}"),
    ("trained/log.jsonl", zeros, "go on", "log.jsonl: a symbolic link"),
    *[(f"trained/{name}", linked, "go on", f"{name}: a symbolic link, and nothing is written through links")
      for name in IN_PLACE],
    *[(f"run/{name}", Path.unlink, "resume", f"{name} is missing") for name in ("run.json", "config.yaml")],
    ("engine/shared_vocabulary.json", pipe, "use ctranslate2", f"shared_vocabulary.json: {SPECIAL[0][1]}"),
    *[("data/train.aa.ends.npy", manifested(change), "train", "train.aa.ends.npy: damaged") for change in HEADERS],
    *[("text/train.aa", odd, "prepare", f"train.aa: {said}, since it is read more than once; write the text into one")
      for odd, said in SPECIAL],
    *[("c.yaml", odd, "config", f"c.yaml: {said}") for odd, said in SPECIAL],
    (STEP + WEIGHTS, sealed(of_bytes(partial(in_numbers_of, "F4", 4))), "translate", "numbers of type F4, not F32\n"),
    (f"export/{WEIGHTS}", sealed(of_bytes(partial(in_numbers_of, "F8_E8M0", 8))), "use", "numbers of type"),
    *[("export/translator.json", sealed(checksums=value), "use", "damaged") for value in CHECKSUMS],
    *[(STEP + WEIGHTS, sealed(planted), "translate", f"{WEIGHTS}: damaged: ") for planted in PICKLES],
    *[(name, change, command, f"{name}: {said}") for command, names in EXPORTED.items()
      for name, (change, said) in product(names, CUT)],
    *[("export/translator.json", of_bytes(change), "use", "translator.json: damaged") for change in SEALS],
    *[(name, edited(**values), "translate", f"{name}: damaged: ") for name, cases in INVALID.items()
      for values in cases],
    *[(f"data/{name}", of_bytes(flipped), "train", f"{name}: {SUM}")
      for name in ("train.bb.ids.npy", "train.bb.ends.npy", "valid.bb.ids.npy", "valid.bb", "tokenizer/joint.model")],
    *[(name, evil, "translate", SHOWN) for name, evil in EVILS.items()],
    *[(name, evil, "runs", "") for name, evil in EVILS.items()],
]  # fmt: skip
"""The file, the damage, the command, and what it says."""


@pytest.fixture(scope="module")
def made(data: Path, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its exports, one that can go on, text, and a data directory made of it."""
    folder = tmp_path_factory.mktemp("made")
    run = write_run(folder / "run")
    (run / "selected.json").write_text(json.dumps({"best_step": 7, "weights": "raw", "reason": ""}))
    export(ExportOptions(run), folder / "export", "folder")
    export(ExportOptions(run, check_lines=2), folder / "engine", "ctranslate2")
    for name, original in (("trained", whole), ("data", data), ("text", data.parent / "text")):
        shutil.copytree(original, folder / name)
    for name in ("tensorboard", "profile"):
        (folder / "trained" / name).mkdir(exist_ok=True)
    (folder / "in").write_text("mali ta\nbore\n")
    (folder / "c.yaml").write_text(dump_config(settings(folder / "data")))
    return folder


@pytest.mark.parametrize(("file", "damage", "command", "said"), TABLE)
def test_damage_is_reported_in_one_line_and_changes_nothing(
    file: str, damage: Damage, command: str, said: str, made: Path, tmp_path: Path, nmt: Command, monkeypatch
) -> None:
    quicken(monkeypatch)
    folder = shutil.copytree(made, tmp_path / "made")
    config = folder / "c.yaml"
    config.write_text(config.read_text().replace(str(made), str(folder)))
    damage(folder / file)
    monkeypatch.chdir(folder)
    before = content(folder)
    with no_hang():
        result = nmt(*COMMANDS[command].split())
    status, n_lines = (0, 0) if command == "runs" else (2, 1)
    assert (result.status or 0, result.err.count("\n")) == (status, n_lines), result
    assert said in result.out + result.err and STEERING.search(result.out + result.err) is None, result
    assert content(folder) == before


def test_planted_pickle_would_be_executed() -> None:
    pickle.loads(pickle.dumps(Planted()))
    assert Path("trap").is_dir()


# --- checkpoints of a run that goes on ---------------------------------------------------------------


@pytest.fixture(scope="module")
def died(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that died after step 5: its checkpoints are those of steps 3 and 4."""
    run = tmp_path_factory.mktemp("died") / "run"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
        quicken(patch)
        die_before(5, patch)
        fit(settings(data), data, run)
    return run


@pytest.fixture
def run(died: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A copy of the run that died, to be damaged."""
    quicken(monkeypatch)
    return RunDir(shutil.copytree(died, tmp_path / "run"))


def other_state(path: Path) -> None:
    state = {**asdict(load_state(CheckpointDir(path.parent))), "unheard_of": 1}
    sealed(state=state)(path)


CHECKPOINTS: list[tuple[Damage, str, str]] = [
    *[(of_bytes(change), name, f"{name}: {SUM}") for name in (WEIGHTS, OPTIMIZER)
      for change in (lambda data: data[:-20], flipped, lambda _: b"")],
    *[(of_bytes(change), STATE, f"{STATE}: damaged: ") for change in (lambda data: data[:-20], lambda _: b"")],
    (of_bytes(flipped), STATE, f"{STATE}: {SUM}"),
    *[(Path.unlink, name, f"{name}: missing") for name in FILES],
    (sealed(format=99), STATE, "step-00000004/state.json: written in format 99, but this version of nmt reads 2"),
    (sealed(of_bytes(renamed)), WEIGHTS, "step-00000004: the weights do not match the model in config.yaml"),
    (sealed(of_bytes(doubled)), WEIGHTS, "the model of config.yaml needs"),
    *[(sealed(of_bytes(change)), OPTIMIZER, "is not from an optimizer of this model") for change in (renamed, doubled)],
    (other_state, STATE, "step-00000004: written by another version of nmt: "),
    *[(sealed(planted), name, f"{name}: damaged: ") for planted in PICKLES for name in (WEIGHTS, OPTIMIZER)],
]  # fmt: skip


@pytest.mark.parametrize(("damage", "name", "reason"), CHECKPOINTS)
def test_damaged_checkpoint_falls_back(data, whole, run, monkeypatch, capsys, damage, name, reason):
    damage(run.step(4).path / name)
    assigned, restored = [], []
    real = resuming.assign, Adam.load_state_dict
    monkeypatch.setattr(resuming, "assign", lambda *a: assigned.append(Path(a[2]).name) or real[0](*a))
    monkeypatch.setattr(Adam, "load_state_dict", lambda *a: restored.append(1) or real[1](*a))
    capsys.readouterr()
    fit(settings(data), data, run.path, resume=True)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "trying the previous checkpoint" in line]
    assert line.startswith(f"nmt: {run.step(4).path}") and reason in line
    assert assigned[0] == "step-00000003" and len(restored) == 1  # nothing of the damaged one was used
    assert differences(kept(run.path), kept(whole)) == [] and not Path("trap").exists()


OUTSIDE = [{"window": 1}, {"stage": 1}, {"drawn": [1, 2, 3]}, {"stage_pairs": 1 << 52}]


@pytest.mark.parametrize("changes", [None, *OUTSIDE], ids=str)
def test_resume_without_intact_checkpoint_changes_nothing(data, run, capsys, changes):
    if changes is None:
        of_bytes(flipped)(run.step(3).weights)
        run.step(4).optimizer.unlink()
    for step in (3, 4) if changes else ():
        state = {**asdict(load_state(run.step(step))), **changes}
        sealed(state=state)(run.step(step).state)
    before = content(run.path)
    with pytest.raises(CheckpointError) as caught:
        fit(settings(data), data, run.path, resume=True)
    assert str(caught.value) == f"{run.path}: no intact checkpoint of this version; start another run"
    outside = "damaged: its position is outside the training text; trying the previous checkpoint"
    assert (outside in capsys.readouterr().err) is bool(changes)
    assert {**content(run.path), str(run.lock): b""} == {**before, str(run.lock): b""}


# --- tensors, states and tokenizers ------------------------------------------------------------------

BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3": 8, "BOOL": 8, "I8": 8, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "C64": 64, "F64": 64, "I64": 64,
}  # fmt: skip
TYPED = [in_numbers_of(kind, n, save({"w": torch.ones(8), "none": torch.ones(0)})) for kind, n in BITS.items()]
ENTRY = {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}
TENSORS = [
    *[(data, r"numbers of type \w+, not \w+$") for data in TYPED], (b"", ""), (bytes(8), ""), (file_of([]), ""),
    (file_of({"w": None}), ""),
    *[(file_of({"w": ENTRY | change}), "") for change in ({}, {"dtype": "X", "shape": []}, {"shape": [2**62, 4]})],
]  # fmt: skip


@pytest.mark.parametrize(("data", "said"), TENSORS)
def test_invalid_tensors_raise(data: bytes, said: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^weights\.safetensors: damaged: .*{said}"):
        parse_tensors(data, Path(WEIGHTS))


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


@cache
def model() -> bytes:
    return tiny_tokenizer().model


def replaced(*pairs: tuple[bytes, bytes]) -> bytes:
    """A tokenizer of ours; what a pattern matches but for its group is replaced by other bytes."""
    changed = model()
    for pattern, new in pairs:
        match = re.search(pattern, changed, flags=re.DOTALL)
        assert match is not None, pattern
        changed = changed[: match.end(match.re.groups and 1)] + new + changed[match.end() :]
    return changed


@pytest.mark.parametrize(
    "pairs",
    [
        [(rb"()<reserved_3>", b"<reserved_\xff>")],  # not UTF-8
        [(rb"(\x05\xe2\x96)\x81", b"\xff")],
        [(rb"(<unk>.{5}\x18)\x02", b"\1"), (rb"(<reserved_9>.{5}\x18)\x03", b"\2")],  # another unknown piece
        [(rb"(<s>.{5}\x18)\x03", b"\1")],  # a special piece that text can have
        [(rb"()<0x50>", b"<0x5X>"), (rb"()<0x51>", b"<0x50>"), (rb"()<0x5X>", b"<0x51>")],  # bytes for each other
    ],
)  # fmt: skip
def test_tokenizer_of_other_pieces_raises(pairs: list[tuple[bytes, bytes]]) -> None:
    LosslessTokenizer(replaced())
    with pytest.raises(DataError, match="a SentencePiece model"):
        LosslessTokenizer(replaced(*pairs))


@hypothesis_settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_tokenizer_raises_or_works(places: list[tuple[float, int]]) -> None:
    changed = bytearray(model())
    for place, value in places:
        changed[int(place * len(changed))] = value
    with no_hang():
        try:
            tokenizer = LosslessTokenizer(bytes(changed))
        except DataError:
            return
        ids = tokenizer.encode_all(["mali ta bore", "Ähm \U0001f600\u2581 \t.", "x" * 300])
        assert all(0 <= each < len(tokenizer) for row in ids for each in row)
        for row in [*ids, list(range(len(tokenizer)))]:
            tokenizer.decode(row)
            tokenizer.pieces(row)


# --- anything in place of anything --------------------------------------------------------------------

VALUES = [
    None, True, -1, 0, 7, 10**30, 0.5, 1e308, float("nan"), "", "x", "a\0b", "\ud800", "../x", [], {}, [[]], {"a": 1},
]  # fmt: skip
WHOLE = [b"", b"[]", b"{}", b"null", b"3", b"[" * 9999]
FUZZED = {"translate": "run", "use": "export", "go on": "trained", "train": "data"}
"""A command, and the folder in which a file is damaged."""


def other_value(rng: random.Random) -> Damage:
    """Put another value somewhere into metadata, with right checksums."""

    def damage(path: Path) -> None:
        content, is_tensors = path.read_bytes(), path.suffix == ".safetensors"
        try:
            header, data = header_of(content) if is_tensors else (json.loads(content), b"")
        except ValueError:  # log.jsonl, or what is not JSON at all
            path.unlink()
            return
        tree = {key: value for key, value in header.items() if key != "seal"}
        put_somewhere(tree, rng.choice(VALUES), rng.choice)
        if is_tensors:
            sealed(of_bytes(lambda _: file_of(tree, data)))(path)
        else:
            path.write_text(sealed_text(tree) if "seal" in header else json.dumps(tree))

    return damage


def other_bytes(rng: random.Random) -> Damage:
    """Replace a few bytes, or all that follow."""
    place, n, new = rng.random(), rng.choice([0, 1, 1, 1, 9, 1 << 60]), rng.randbytes(rng.choice([0, 1, 1, 9]))
    return of_bytes(lambda data: data[: int(place * len(data))] + new + data[int(place * len(data)) + n :])


def swapped(path: Path) -> None:
    other = max(file for file in path.parent.iterdir() if file.is_file())
    contents = path.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    path.write_bytes(contents[1])


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.touch()


ANY: list[Callable[[random.Random], Damage]] = [
    *[other_value, other_bytes] * 3,
    lambda rng: of_bytes(lambda _: rng.choice(WHOLE)),
    *[lambda _, damage=damage: damage for damage in (
        swapped, Path.unlink, file_for_folder, lambda path: [path.unlink(), path.mkdir()],
        *[lambda path, to=to: [path.unlink(), path.symlink_to(to)] for to in ("loop", "/proc/self/mem")],
    )],
]  # fmt: skip


@pytest.fixture(scope="module")
def answers(made: Path, nmt: Command) -> dict[str, str]:
    """What the commands translate when nothing is damaged, with scores, which tell more of the weights than words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        return {name: nmt(*COMMANDS[name].split(), "--n-best", "2").out for name in ("translate", "use")}


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 10, phases=[Phase.explicit, Phase.generate])
@pytest.mark.parametrize("command", FUZZED)
@given(seed=st.integers(0, 2**32))
def test_damaged_folder_is_refused_or_used_rightly(
    command: str, seed: int, made: Path, answers: dict[str, str], tmp_path_factory: pytest.TempPathFactory, nmt: Command
) -> None:
    """What is translated, and what is learned from, is what was written, or nothing is."""
    rng, folder = random.Random(seed), shutil.copytree(made, tmp_path_factory.mktemp("any") / "made")
    (folder / "c.yaml").write_text((folder / "c.yaml").read_text().replace(str(made), str(folder)))
    path = rng.choice(sorted(path for path in (folder / FUZZED[command]).rglob("*") if path.is_file()))
    before, way = path.read_bytes(), rng.choice(ANY)
    damage = way(rng)
    damage(path)
    with no_hang(), pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        patch.chdir(folder)
        more = {"train": ["--set", "training.max_steps=1"], "go on": []}.get(command, ["--n-best", "2"])
        result = nmt(*COMMANDS[command].split(), *more)
        prepared = nmt("prepare", "--config", "c.yaml", "--data", "data")
    check(result)
    check(prepared)
    if result.status == 0 and command in answers and way is not other_value and damage is not file_for_folder:
        is_sealed = command == "use" or path.name not in ("config.yaml", "run.json", "selected.json")
        assert result.out == answers[command] or not is_sealed, path
    if command == "train":
        assert (folder / "new").exists() == (result.status == 0)
        is_learned = path.name.startswith(("valid", "joint")) or (path.suffix == ".npy" and "train" in path.name)
        assert result.status or not is_learned or path.read_bytes() == before, path
        assert prepared.status or path.name.startswith(("manifest", "report")) or path.stat().st_size == len(before)
    shutil.rmtree(folder.parent)
