"""Text with other spaces, invisible characters or another normal form, by every way in, is read as plain text.

A new document format, command or endpoint must be added to one of the tables.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unicodedata import normalize

import polib
import pytest

from command import run_command
from documents import bare_docx, bare_odt
from held_out import held_out_of
from nmt.cli.app import GROUPS
from nmt.data.settings import DataConfig
from nmt.documents import FORMATS, Columns, open_document
from nmt.evaluate.report import Subject, evaluate
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.grouping import groupings
from nmt.prepare.pipeline.clean import comparable_lines
from nmt.serve.app import make_app
from nmt.serve.models import Models
from nmt.serve.service import Service
from nmt.text.constraints import Applied, Glossary
from nmt.text.segments import Codes
from nmt.text.tokenizer import train_tokenizer
from nmt.translate.loading import Translator
from nmt.translate.memory import TranslationMemory
from samples_tables import bare_pptx, bare_xlsx
from served import FORM, Client, multipart, serving_app
from tiny_run import tiny_config, tiny_model, words, write_run
from waiting import until

LINES = [f"Ê{' '.join(words(8, n))} é à ộ" for n in range(200)]
TEXT = "Êbala dogu tiré ộna"


FORMS = {
    **{f"space U+{ord(space):04X}": TEXT.replace(" ", space, 1) for space in "\u00a0\u202f\u2009\u3000\u2003"},
    **{
        f"U+{ord(sign):04X} in a word": TEXT.replace("dogu", f"do{sign}gu") for sign in "\u00ad\u200b\u200c\u200d\u2060"
    },
    **{f"U+{ord(sign):04X} at the start": f"{sign}{TEXT}" for sign in "\ufeff\u200e\u2067"},
    "NFD": normalize("NFD", TEXT),
    "partly composed": TEXT.replace("ộ", "o\u0302\u0323"),
}
"""The text in forms that the vocabulary does not know."""


class Place:
    """A run, a server and a folder."""

    def __init__(self, folder: Path, run: Path, client: Client) -> None:
        self.folder, self.run, self.client = folder, run, client
        self.translator = Translator.load(run)

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    tokenizer, config = train_tokenizer(LINES, 420), tiny_config()
    folder = tmp_path_factory.mktemp("reading")
    run = write_run(folder / "run", config, tokenizer, tiny_model(config, tokenizer))
    service = Service(Models([Translator.load(run)]))
    with serving_app(make_app(service)) as client:
        until(lambda: service.is_ready, 30)
        yield Place(folder, run, client)


Texts = list[str]


def documents(texts: Texts) -> dict[str, bytes]:
    """Return a document of each format with these texts."""
    escaped = [html.escape(text) for text in texts]
    cues = "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{text}\n\n" for n, text in enumerate(texts))
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    catalogue = "".join(f'\nmsgctxt "{n}"\nmsgid "{text}"\nmsgstr ""\n' for n, text in enumerate(texts))
    page = "".join(f"<p>{text}</p>" for text in escaped).encode()
    sources = "".join(f"<trans-unit id='{n}'><source>{text}</source></trans-unit>" for n, text in enumerate(escaped))
    xliff = f"<xliff version='1.2'><file source-language='de'><body>{sources}</body></file></xliff>".encode()
    strings = "".join(f'<string name="n{n}">{text}</string>' for n, text in enumerate(escaped))
    values = "".join(f'<data name="n{n}"><value>{text}</value></data>' for n, text in enumerate(escaped))
    rows = "".join(f'<row><c t="inlineStr"><is><t>{text}</t></is></c></row>' for text in escaped)
    table = "source\ttarget\n" + "".join('"' + text.replace('"', '""') + '"\t\n' for text in texts)
    unfinished = '<translation type="unfinished"/>'
    messages = "".join(f"<message><source>{text}</source>{unfinished}</message>" for text in escaped)
    by_key = {f"n{n}": text for n, text in enumerate(texts)}
    return {
        **dict.fromkeys((".json", ".arb", ".yaml", ".yml"), json.dumps(by_key, ensure_ascii=False).encode()),
        ".properties": "".join(f"{key} = {text}\n" for key, text in by_key.items()).encode(),
        ".strings": "".join(f'"{key}" = "{text}";\n' for key, text in by_key.items()).encode(),
        **dict.fromkeys((".md", ".markdown"), "\n\n".join(texts).encode()),
        **{suffix: table.replace("\t", sign).encode() for suffix, sign in ((".csv", ","), (".tsv", "\t"))},
        ".xlsx": bare_xlsx({"A": rows}),
        ".pptx": bare_pptx("".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in escaped)),
        ".xml": f"<resources>{strings}</resources>".encode(),
        ".resx": f"<root>{values}</root>".encode(),
        ".ts": f"<TS version='2.1'><context>{messages}</context></TS>".encode(),
        **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), xliff),
        ".txt": "\n".join(texts).encode("utf-16"),  # in UTF-8, it is not a document
        ".srt": cues.encode(),
        ".vtt": f"WEBVTT\n\n{cues}".encode(),
        ".po": f"{header}{catalogue}".encode(),
        ".html": page,
        ".htm": page,
        ".docx": bare_docx("".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in escaped)),
        ".odt": bare_odt("".join(f"<text:p>{text}</text:p>" for text in escaped)),
    }


def ran(*arguments: object) -> str:
    """Return what a command prints."""
    result = run_command(*arguments)
    assert result.status in (0, None), result.err
    return result.out


def document(suffix: str) -> Callable[[Place, Texts], Texts]:
    def translated(place: Place, texts: Texts) -> Texts:
        output = place.folder / f"out{suffix}"
        source = place.file(f"in{suffix}", documents(texts)[suffix])
        ran("translate", "--run", place.run, "--input", source, "--output", output)
        return [*open_written(suffix, output.read_bytes())]

    return translated


def open_written(suffix: str, content: bytes) -> Iterator[str]:
    """Yield the texts of a translated document; marks of direction are markup in subtitles and catalogues."""
    columns = Columns("target") if suffix in (".csv", ".tsv") else None
    texts = open_document(f"a{suffix}", content, columns=columns).texts
    if suffix == ".po":
        texts = [entry.msgstr for entry in polib.pofile(content.decode())]
    elif suffix.endswith(("xlf", "xliff", ".ts")):
        texts = re.findall("<(?:target|translation)[^>]*>(.*?)</", html.unescape(content.decode()))
    return (re.sub("[\u200e\u2067]", "", text) for text in texts)


def lines(place: Place, texts: Texts) -> list[object]:
    output, alignments = place.folder / "out", place.folder / "alignments"
    source = place.file("lines", "".join(f"{text}\n" for text in ["", *texts]))  # a file may begin with a BOM
    ran("translate", "--run", place.run, "--input", source, "--output", output, "--alignments", alignments)
    return [*zip(*(path.read_text(encoding="utf-8").split("\n")[1:-1] for path in (output, alignments)), strict=True)]


def scored(place: Place, texts: Texts) -> list[object]:
    sides = [place.file(name, "".join(f"{text}\n" for text in texts)) for name in ("src", "ref")]
    rows = ran("score", "--run", place.run, "--src", sides[0], "--ref", sides[1]).splitlines()
    return [row.split("\t")[1:3] for row in rows]


def evaluated(place: Place, texts: Texts) -> list[object]:
    source = place.file("src", "".join(f"{text}\n" for text in texts))
    reference = place.file("ref", "bala dogu tire\n" * len(texts))
    printed = ran("evaluate", "--run", place.run, "--src", source, "--ref", reference, "--samples", len(texts))
    return re.findall(r"  translation  (.*)\n", printed)


def through_server(place: Place, texts: Texts) -> list[object]:
    answer = place.client.ask("/translate", {"q": texts, "source": "de", "target": "en"})
    return list(answer.json["translatedText"])


def with_alignment(place: Place, texts: Texts) -> list[object]:
    """Return translations with the source words of their alignments, which are numbered to compare them."""
    answer = place.client.ask("/v1/translate", {"text": texts, "source": "de", "target": "en", "alignment": True})
    results: list[object] = []
    for text, translation in zip(texts, answer.json["translations"], strict=True):
        starts = [match.start() for match in re.finditer(r"\S+", text)]
        results.append((translation["text"], [starts.index(pair["source"][0]) for pair in translation["alignment"]]))
    return results


def file_through_server(place: Place, texts: Texts) -> list[object]:
    sent = [
        ('name="file"; filename="a.html"', documents(texts)[".html"]),
        ('name="source"', b"de"),
        ('name="target"', b"en"),
    ]
    answer = place.client.ask("/translate_file", raw=multipart(*sent), content_type=FORM)
    path = re.sub(r"^https?://[^/]*", "", answer.json["translatedFileUrl"])
    return [*open_written(".html", place.client.ask(path).body)]


TRANSLATING: dict[str, Callable[[Place, Texts], Sequence[object]]] = {
    "Python": lambda place, texts: place.translator.translate(texts),
    "lines": lines,
    "score": scored,
    "evaluate": evaluated,
    "/translate": through_server,
    "/v1/translate": with_alignment,
    "/translate_file": file_through_server,
    **{suffix: document(suffix) for suffix in documents([])},
}


@pytest.mark.parametrize("way", TRANSLATING)
def test_text_in_unknown_forms_is_translated_as_plain_text(place: Place, way: str) -> None:
    expected, *results = TRANSLATING[way](place, [TEXT, *FORMS.values()])
    assert expected
    assert dict(zip(FORMS, results, strict=True)) == dict.fromkeys(FORMS, expected)


# --- comparisons ----------------------------------------------------------------------------------


def overlapping(text: str) -> object:
    data = DataConfig(direction="de-en", train=[{"files": {"de": "a", "en": "b"}}])  # type: ignore[list-item]
    return Cleaner(data, "train.0", held_out_of([(TEXT, "a")])).reason(text, "a")


def duplicate(text: str) -> object:
    lines = comparable_lines([text, TEXT], "de")
    rules = groupings(CLEANED.clean, CLEANED.pair)
    return {rule.reason for rule in rules if len({rule.key(side, "a") for side in lines}) == 1}


def remembered(text: str) -> object:
    return TranslationMemory([(TEXT, "a", Codes.NONE)], "de", "en").find(text)


def glossed(text: str) -> object:
    return [span.wanted for span in Glossary({TEXT.split()[0]: "a", " ".join(TEXT.split()[1:]): "b"}).spans(text)]


def required(text: str) -> object:
    glossary = Glossary({"a": TEXT})
    counts = Applied(glossary, "de")
    counts.add(1, glossary.spans("a"), text)
    return [*counts.lines()]


CLEANED = DataConfig(
    direction="de-en", train=[{"files": {"de": "a", "en": "b"}}], clean={"drop": ["near_duplicates"]},  # type: ignore
)  # fmt: skip
COMPARING = {
    "overlap": overlapping, "duplicates": duplicate, "memory": remembered, "glossary": glossed, "terms": required,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", COMPARING)
def test_text_in_another_form_is_compared_as_plain_text(way: str, form: str) -> None:
    compared = COMPARING[way]
    assert compared(FORMS[form]) == compared(TEXT)
    assert compared(FORMS[form]) != compared("Êbala mono tiré ono")


@pytest.mark.parametrize("form", ["NFD", "U+00AD in a word", "U+FEFF at the start"])
def test_scores_of_texts_in_other_forms_have_a_note(form: str) -> None:
    for hyps, refs in ([FORMS[form]] * 9, [TEXT] * 9), ([TEXT] * 9, [FORMS[form]] * 9):
        assert any("translations and references differ" in note for note in evaluate(hyps, refs, Subject()).notes)
    assert not any("references differ" in note for note in evaluate([TEXT] * 9, [TEXT] * 9, Subject()).notes)


# --- completeness ---------------------------------------------------------------------------------

COMMANDS = {
    "translate": "lines", "score": "score", "evaluate": "evaluate", "serve": "/translate",
    # these translate or score by the same `Translator`, or encode the text of a data directory by the same tokenizer
    **dict.fromkeys(
        ("prepare", "train", "filter", "align", "compare", "calibrate", "challenge", "robustness", "rerank",
         "adapt", "distil", "back-translate", "bidirectional", "classify", "generate", "demo", "sweep"), "Python",
    ),
    **dict.fromkeys(("data", "runs", "plot", "import", "export", "push", "config"), ""),  # read no text
}  # fmt: skip
ENDPOINTS = {"/translate", "/translate_file", "/v1/translate", "/detect", "/suggest"}


def test_every_way_in_is_in_the_tables(place: Place) -> None:
    assert {*FORMATS} <= TRANSLATING.keys()
    assert {name for names in GROUPS.values() for name in names} == COMMANDS.keys()
    assert {*COMMANDS.values()} - {""} <= TRANSLATING.keys()
    described = place.client.ask("/spec").json["paths"]
    assert {path for path, methods in described.items() if "post" in methods} <= ENDPOINTS
