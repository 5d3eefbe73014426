"""Whether the documentation tells the truth: links, commands, names, generated pages."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.main import get_command

from documented import CODE, commands_in
from nmt.chat.prompt import PROMPT, Prompter
from nmt.chat.protocol import estimated_tokens
from nmt.cli import app
from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.sources import KINDS
from places import GOLDEN, ROOT
from scripts.checks import figures
from scripts.docs.generate import pages
from scripts.docs.picture import PICTURE, picture

pytestmark = pytest.mark.usefixtures("no_coverage")

CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
COMMANDS = get_command(app)
SETTINGS = {
    f"{section}.{name}"
    for section, field in Config.model_fields.items()
    for name in field.annotation.model_fields  # type: ignore[union-attr]
}
PAGES = [
    Path("README.md"),
    Path("data/README.md"),
    Path("scripts/README.md"),
    *(path.relative_to(ROOT) for path in sorted(ROOT.glob("docs/*.md"))),
]


def read(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


# --- generated pages ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["settings.md", "commands.md"])
def test_generated_pages_are_current(name: str) -> None:
    assert read(Path("docs") / name) == pages()[name], "run python -m scripts.docs.generate"


def test_report_picture_is_current() -> None:
    drawn = picture()
    assert read(PICTURE.relative_to(ROOT)) == drawn, "run python -m scripts.docs.picture"
    ElementTree.fromstring(drawn)


def test_settings_and_commands_are_documented() -> None:
    settings, commands = pages()["settings.md"], pages()["commands.md"]
    for key in (*SETTINGS, *(name for kind in KINDS.values() for name in kind.model_fields)):
        assert f"\n| `{key}` |" in settings, key
    for name, command in COMMANDS.commands.items():  # type: ignore[attr-defined]
        section = commands.split(f"## nmt {name}\n")[1].split("\n## ")[0]
        for option in (option for parameter in command.params for option in parameter.opts if option.startswith("-")):
            assert f"| `{option}" in section, option


# --- links and names ----------------------------------------------------------------------------


def anchors(page: Path) -> list[str]:
    return [figures.slug(heading) for heading in re.findall(r"^#+ (.*)$", CODE.sub("", read(page)), re.M)]


def links(page: Path) -> list[str]:
    """Return the targets of a page's relative links and pictures."""
    return re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", CODE.sub("", read(page)))


@pytest.mark.parametrize(
    "page", [*PAGES, *(path.relative_to(ROOT) for path in sorted(ROOT.glob("scripts/results/*.md")))], ids=str
)
def test_relative_links_resolve(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        path = (ROOT / page.parent / name).resolve() if name else ROOT / page
        assert path.is_file() and path.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(path.relative_to(ROOT)), target


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_documented_paths_settings_and_make_targets_exist(page: Path) -> None:
    text, makefile = read(page), read(Path("Makefile"))
    for name in re.findall(r"`((?:nmt|scripts|tests|configs|docs)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
    assert {*re.findall(r"`((?:data|tokenizer|model|training|search)\.(?!json\b)[a-z_0-9]+)\b", text)} <= SETTINGS
    assert {*re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.M)} <= {*re.findall(r"^([a-z0-9-]+):", makefile, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_documented_definitions_exist(page: Path) -> None:
    for names, path in re.findall(
        r"((?:`\w+`(?:, | and )?)+) (?:in|\|) `(nmt/[\w/]+\.py)`", " ".join(read(page).split())
    ):
        nodes = [*ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))]
        defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        defined |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        assert {*re.findall(r"\w+", names.replace(" and ", " "))} <= defined, path


def test_readme_is_short_and_pages_are_linked() -> None:
    assert len(read(Path("README.md")).splitlines()) <= 150 and "docs/index.md" in links(Path("README.md"))
    navigation = read(Path("mkdocs.yml"))
    for page in ROOT.glob("docs/*.md"):
        assert f": {page.name}\n" in navigation, page.name
        assert page.name == "index.md" or page.name in links(Path("docs/index.md")), page.name


def test_documented_extras_exist() -> None:
    extras = tomllib.loads(read(Path("pyproject.toml")))["project"]["optional-dependencies"]
    text = "\n".join(map(read, PAGES))
    for package, names in re.findall(r"pip install [^\n`]*?(\S*)\[([\w,-]+)\]", text):
        assert package.strip("'\"") in ("nmt-train", ".", "/src") and {*names.split(",")} <= {*extras}, (package, names)


EXAMPLES = json.loads((GOLDEN / "examples.json").read_text(encoding="utf-8"))
"""Sentences and their translations by the model of `make demo`: python -m scripts.checks.golden examples RUN."""


def test_example_sentences_are_translated_correctly() -> None:
    assert EXAMPLES == {
        "Gestern hat Maria den Hund gefüttert.": "Yesterday, Maria fed the dog.",
        "Gestern hat Maria das Fahrrad repariert.": "Yesterday, Maria repaired the bicycle.",
    }
    texts = [read(page) for page in (*PAGES, *(path.relative_to(ROOT) for path in ROOT.glob("nmt/**/*.py")))]
    typed, called = r'nmt translate "([^"]+)"', r'translate\(\["([^"{]+)"\]'
    given = f"{typed}|{called}" + r'|-d q="([^"]+)"|"(?:q|text)": "([^"{]+)", "source"'
    found = {next(filter(None, groups)) for text in texts for groups in re.findall(given, text)}
    assert found == {*EXAMPLES}


def test_cost_of_language_models_is_counted() -> None:
    table = read(Path("docs/recipes.md")).partition("| lines per request |")[2].partition("\n\n")[0]
    prompter, line = Prompter(PROMPT, ("de", "en")), "x" * 120
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", table, re.M)
    assert len(rows) == 3
    for row in rows:
        n = int(row[0])
        answer = line if n == 1 else json.dumps({str(number + 1): line for number in range(n)})
        prompted = estimated_tokens(prompter.prompt([line] * n, in_json=True)) / n / 10  # in millions for 100,000 lines
        written = estimated_tokens(answer) / n / 10
        cheap, dear = 0.1 * prompted + 0.4 * written, 2 * prompted + 8 * written
        assert row[1].split(" | ") == [f"{prompted:.1f}", f"{written:.1f}", f"{cheap:.1f}", f"{dear:.0f}"]


# --- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", figures.pages(ROOT))
def test_figures_stand_in_linked_tables(name: str) -> None:
    assert list(figures.findings(ROOT, name)) == []


def test_figures_that_no_linked_table_has_are_found(tmp_path: Path) -> None:
    results = tmp_path / "scripts/results"
    results.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (results / "a.md").write_text("# A\n\n## One\n\n| 26.53 | 157,101 |\n\n## Two\n\n4.1 and `99.9`, 3.4\n")
    link = "[table](../scripts/results/a.md{})"
    page = {
        f"One run has 26.5 BLEU after 157,000 seconds ({link.format('')}).": [],
        f"One run has 26.5 BLEU ({link.format('#one')}).": [],
        f"One run has 26.6 BLEU ({link.format('#one')}).": ["26.6"],
        f"One run has 4.1 BLEU ({link.format('#one')}).": ["4.1"],
        f"One run has 99.9 BLEU ({link.format('')}).": ["99.9"],
        "Text is translated [3.4\ntimes](../scripts/results/a.md) as fast, in 7 minutes, by 226 lines per second.": [
            "7",
            "226",
        ],
        "One run has 26.5 BLEU.": ["26.5"],
        f"A run has 26.5 BLEU ({link.format('')}).": ["seeds"],
        "With Python 3.12 and a dropout of 0.1, `--beam 3.5 BLEU` and 95 % intervals.": [],
        "With Python 3.12, 95 % of the lines are kept in 20 s.": ["95", "20"],
        f"A table of one run each ({link.format('#one')}):\n\n| | BLEU |\n|---|---|\n| a | 28 |\n| b | 26.5 |": ["28"],
        f"One run each ({link.format('#two')}):\n\n* 4.1 BLEU of one run\n* 5.1 BLEU of one run": ["5.1"],
    }
    for text, missing in page.items():
        (tmp_path / "docs/page.md").write_text(f"# Page\n\n{text}\n", encoding="utf-8")
        lines = list(figures.findings(tmp_path, "docs/page.md"))
        assert [re.search(r"seeds|[\d.]+$", line)[0] for line in lines] == missing, text  # type: ignore[index]


# --- commands -----------------------------------------------------------------------------------


def check_command(arguments: list[str]) -> None:
    """Parse one command without running it; a shipped config is loaded with its overrides."""
    name, *rest = arguments
    if name.startswith("-") or "--help" in rest:
        return
    command = COMMANDS.commands[name]  # type: ignore[attr-defined]
    # as `nmt` makes it: a command keeps the help option of its first context, and other tests share the commands
    context = command.make_context(name, list(rest), **COMMANDS.context_settings)
    if context.params.get("config") in CONFIGS:
        load_config(ROOT / "configs" / context.params["config"], context.params.get("overrides") or ())


def test_commands_are_found_in_shell_code() -> None:
    text = 'cd nmt\n$ nmt prepare --set "a=b c"  # words\necho x | nmt translate --beam 1 > out\nnmt \\\n  evaluate'
    assert commands_in(text) == [["prepare", "--set", "a=b c"], ["translate", "--beam", "1"], ["evaluate"]]
    with pytest.raises(Exception, match="No such option"):
        check_command(["train", "--confg", "x"])


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_documented_commands_parse(page: Path) -> None:
    for arguments in commands_in("\n".join(CODE.findall(read(page)))):
        check_command(arguments)


def test_pages_show_every_command() -> None:
    shown = {arguments[0] for page in PAGES for arguments in commands_in("\n".join(CODE.findall(read(page))))}
    assert shown >= COMMANDS.commands.keys()  # type: ignore[attr-defined]


def test_help_examples_parse() -> None:
    for page in (COMMANDS, *COMMANDS.commands.values()):  # type: ignore[attr-defined]
        _, _, examples = (page.help or "").partition("Example")
        commands = commands_in(examples)
        assert commands, f"nmt {page.name} --help shows no example"
        for arguments in commands:
            check_command(arguments)


def test_makefile_commands_exist() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = commands_in(text.replace("$(BIN)/nmt", "nmt").replace("$(DEMO)", "runs/demo"))
    assert [arguments[0] for arguments in commands] == ["demo"]
    for arguments in commands:
        check_command(arguments)


def test_pages_contain_no_machine_specific_paths() -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    places = [b"/" + name + b"/" for name in (b"root", b"work", b"home")]
    for path in map(ROOT.joinpath, done.stdout.decode().split("\0")[:-1]):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(place in content for place in places), f"{path} names a place on one machine"
