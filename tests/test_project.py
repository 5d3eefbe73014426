"""The project itself: who imports whom, what is shipped, and whether the README tells the truth."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from typer.main import get_command

from nmt.cli import app
from nmt.config import Config, Section, Source
from nmt.config.load import load_config
from places import ROOT

PACKAGE = ROOT / "nmt"
MODULES = sorted(PACKAGE.rglob("*.py"))
CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))

TABLE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("```layers\n")[2].partition("```")[0]
LAYER = {room: -number for number, row in enumerate(TABLE.splitlines()) for room in row.split()}
"""The number of the row of each room in the table of layers; higher rooms import from lower ones."""
GROUND = [room for room in LAYER if LAYER[room] <= LAYER["config"]]
HEAVY = {"torch", "safetensors", "datasets", "tensorboard", "matplotlib", "sentencepiece", "sacrebleu", "numpy"}


def module_name(path: Path) -> str:
    """The dotted name of a module below `nmt`; a package's own is that of the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in MODULES}


def room_of(name: str) -> str | None:
    """The room that a module is in, by the longest name in the table; None if it has none."""
    while name and name not in LAYER:
        name = name.rpartition(".")[0]
    return name or None


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room they come from"
            # `from nmt import cli` names the room last
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_imported(path: Path) -> set[str]:
    """The modules of this package that a file imports, anywhere in it."""
    found = set()
    for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        package, _, name = name.partition(".")
        while package == "nmt" and name and name not in NAMES:
            name = name.rpartition(".")[0]
        if package == "nmt" and name:
            found.add(name)
    return found


def test_the_ground_floor_has_at_most_five_modules() -> None:
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(loose) <= 5, loose


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_a_module_imports_from_lower_layers_only(name: str) -> None:
    room = room_of(name)
    assert room is not None, f"nmt.{name} has no place in the table of docs/architecture.md"
    for imported in modules_imported(NAMES[name]):
        other = room_of(imported)
        assert other is not None, f"nmt.{imported} has no place in the table of docs/architecture.md"
        assert other == room or LAYER[other] < LAYER[room], f"{room} may not import nmt.{imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({name: modules_imported(path) - {name} for name, path in NAMES.items()}).prepare()


def test_the_package_itself_offers_what_programs_use() -> None:
    assert modules_imported(NAMES[""]) == {"api", "translate.translator", "process"}


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_who_may_see_what(name: str) -> None:
    outside = {imported.split(".")[0] for imported in imports(ast.parse(NAMES[name].read_text(encoding="utf-8")))}
    if room_of(name) in GROUND:
        assert not outside & HEAVY
    if name == "evaluate.metrics":
        assert "torch" not in outside, "metrics sees strings only"
    if room_of(name) == "search" and name not in ("search.step", "search.forced"):
        seen = {imported.split(".")[0] for imported in modules_imported(NAMES[name])}
        assert "model" not in seen, "search sees the model step by step, or whole in forced decoding"


def at_import(path: Path) -> ast.Module:
    """The imports that a file makes as it is imported, not later in a function."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return ast.Module([node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))], [])


def test_the_command_line_imports_its_stages_late() -> None:
    """`nmt --help` waits for no library that takes long to import."""
    waiting, seen = ["cli"], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        found = set(imports(at_import(NAMES[name])))
        assert not {imported.split(".")[0] for imported in found} & HEAVY, f"nmt.{name} is slow to import"
        for imported in found:
            parts = imported.split(".")
            inner = [".".join(parts[1:end]) for end in range(2, len(parts) + 1) if parts[0] == "nmt"]
            waiting += [other for other in inner if other in NAMES and other not in seen]
    assert {"cli.train", "config.load", "console"} <= seen


def test_what_is_printed_for_people_goes_through_one_module() -> None:
    """All but JSON, YAML and lines that were made printable before."""
    printing = set()
    for path in MODULES:
        calls = (node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        if any(isinstance(called, ast.Name) and called.id == "print" for called in calls):
            printing.add(path.relative_to(PACKAGE).as_posix())
    assert printing == {
        "console.py", "training/report/log.py", "cli/app.py", "cli/config.py", "cli/runs.py", "cli/evaluate.py",
    }  # fmt: skip


def test_the_imports_are_really_seen() -> None:
    assert "text.tokenizer" in modules_imported(PACKAGE / "data" / "corpus.py")
    assert room_of("training.loop") == "training.loop" and room_of("training.loss") == "training"
    assert set(imports(ast.parse("import a.b\nfrom nmt import cli\nfrom c.d import e"))) == {"a.b", "nmt.cli", "c.d.e"}


def test_every_directory_of_modules_is_a_package() -> None:
    """Of others setup.py would install nothing."""
    assert {path.parent for path in MODULES} == {path.parent for path in PACKAGE.rglob("__init__.py")}


# --- configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shipped_config_loads_in_both_directions(name: str) -> None:
    config = load_config(ROOT / "configs" / name)
    other = load_config(ROOT / "configs" / name, [f"data.direction={config.data.tgt}-{config.data.src}"])
    assert other.data.directory == config.data.directory
    assert other.run_directory != config.run_directory


def test_the_shipped_configs() -> None:
    assert CONFIGS == ["base-best.yaml", "base.yaml", "iwslt14.yaml", "multi30k.yaml", "sample.yaml"]
    base = load_config(ROOT / "configs" / "base.yaml")
    assert (base.training.optimizer, base.training.schedule) == ("adam", "noam")
    assert (base.training.beta1, base.training.beta2, base.training.eps) == (0.9, 0.98, 1e-9)
    best = load_config(ROOT / "configs" / "base-best.yaml")
    assert (best.data, best.tokenizer) == (base.data, base.tokenizer)  # one data directory serves both
    for name in ("base-best.yaml", "iwslt14.yaml", "multi30k.yaml"):  # what won is what one gets
        strong = load_config(ROOT / "configs" / name).training
        assert strong.consistency == "simcut" and strong.consistency_weight > 0 and strong.ema > 0
    directories = [load_config(ROOT / "configs" / name).data.directory for name in CONFIGS]
    assert len(set(directories)) == len(CONFIGS) - 1
    assert len({load_config(ROOT / "configs" / name).run_directory for name in CONFIGS}) == len(CONFIGS)


def sections() -> list[type[Section]]:
    found: list[type[Section]] = [Source]
    for field in Config.model_fields.values():
        assert isinstance(field.annotation, type)
        found.append(field.annotation)
    return found


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_field_is_documented(section: type[Section]) -> None:
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert field.description, f"{section.__name__}.{name} says nothing of its meaning"
        assert field.description.rstrip().endswith("."), f"{section.__name__}.{name} is no sentence"


def attributes_read(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_every_field_is_read_somewhere() -> None:
    config_files = sorted((PACKAGE / "config").glob("*.py"))
    config_tree = ast.Module([node for path in config_files for node in ast.parse(path.read_text()).body], [])
    read: set[str] = set()
    for path in MODULES:
        if path not in config_files:
            read |= attributes_read(ast.parse(path.read_text(encoding="utf-8")))
    # a field may also be read through a method or property of the configuration that is itself read
    properties = {
        node.name: attributes_read(node)
        for node in ast.walk(config_tree)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    for name in list(properties) * 2:
        if name in read:
            read |= properties[name]
    unread = [f"{part.__name__}.{name}" for part in sections() for name in part.model_fields if name not in read]
    assert unread == []


# --- what is written about it -------------------------------------------------------------------

COMMANDS = get_command(app)


def commands_in(text: str) -> list[list[str]]:
    """The arguments of every `nmt` command in lines of shell."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if "nmt" not in line or "[--" in line or "…" in line:  # a synopsis is no command
            continue
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                if words[:1] == ["nmt"]:
                    found.append(words[1:])
                words = []
            else:
                words.append(word)
    return found


def check_command(arguments: list[str]) -> None:
    """Parse one command without running it; a shipped config is loaded with its overrides."""
    name, *rest = arguments
    if name.startswith("-"):
        return
    command = COMMANDS.commands[name]  # type: ignore[attr-defined]
    if "--help" in rest:
        return
    context = command.make_context(name, list(rest))
    if context.params.get("config") in CONFIGS:
        load_config(ROOT / "configs" / context.params["config"], context.params.get("overrides") or ())


def test_commands_are_found_in_shell() -> None:
    text = 'cd nmt\n$ nmt prepare --set "a=b c"  # words\necho x | nmt translate --beam 1 > out\nnmt \\\n  evaluate'
    assert commands_in(text) == [["prepare", "--set", "a=b c"], ["translate", "--beam", "1"], ["evaluate"]]
    with pytest.raises(Exception, match="No such option"):
        check_command(["train", "--confg", "x"])


@pytest.mark.parametrize("page", ["README.md", "data/README.md"])
def test_the_commands_of_the_pages_parse(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)
    commands = commands_in("\n".join(blocks))
    assert commands
    for arguments in commands:
        check_command(arguments)


def test_the_examples_of_the_manual_parse() -> None:
    pages = [COMMANDS, *COMMANDS.commands.values()]  # type: ignore[attr-defined]
    for page in pages:
        _, _, examples = (page.help or "").partition("Example")
        commands = commands_in(examples)
        assert commands, f"nmt {page.name} --help shows no example"
        for arguments in commands:
            check_command(arguments)


def test_the_makefile_calls_real_commands() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = commands_in(text.replace("$(BIN)/nmt", "nmt").replace("$(DEMO)", "runs/demo"))
    assert [arguments[0] for arguments in commands] == ["prepare", "train", "translate", "evaluate"]
    for arguments in commands:
        check_command(arguments)


def test_no_file_names_a_place_on_one_machine() -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    places = [b"/" + name + b"/" for name in (b"root", b"work", b"home")]
    for name in done.stdout.decode().split("\0")[:-1]:
        path = ROOT / name
        if path.is_file():
            content = path.read_bytes()
            assert not any(place in content for place in places), f"{name} names a place on one machine"
