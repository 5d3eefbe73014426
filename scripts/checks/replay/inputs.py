"""Write the files that the cases read: text of the embedded sample corpus, damaged in many ways, and odd text.

All of it is deterministic. Documents are written by `documents.py`, public models by `models.py`.
"""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import yaml

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "data" / "sample"


def _listed(name: str) -> list[str]:
    """The values of a list of values.txt."""
    lines = Path(__file__).with_name("values.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name} = ")).split()[2:]


ODD = [
    "Der Hund läuft im Park.", "", "   ", "Ein Mann liest ein Buch. Die Frau schläft.",
    "Das Kind\tspielt mit dem Ball.", "\u00a0Die Katze\u2003trinkt Milch.", "\u200fשלום עולם\u200e Der Hund.",
    "Der Mann 👩‍👩‍👧‍👦 sieht 🇩🇪 ❤️.", "Die Frau isst e\u0301inen A\u0308pfel.",
    "Gestern\u200b hat Ma\u00adria den Hund gefüttert.", "DER HUND SCHLÄFT.", "der hund " * 12,
    "http://example.org/a?b=c&d=e und a.b@c.de {name} %s <b>fett</b> &amp; 3,5 %.", "\ufeffDer Vater kocht.",
    "Der Vater\x0bkocht\x0c.", "Der\x00Vater", "日本語のテキスト。中文文本！", "Привет, мир! Как дела?",
    "مرحبا بالعالم",
    "Ein Mann" + " liest ein Buch" * 60 + ".", ".", "???", "— „Der Hund“, sagte er, „schläft.“",
    "Die Mutter kauft 1.000 Äpfel um 12:30 Uhr am 24.12.2025!", "<s> </s> <unk> <pad> ▁ ▁Hund", "||| x ||| y",
    "Der Hund\u2028schläft.\u2029Ja.", "ſtraße STRASSE straße ﬁnden", "ß" * 200, "a" * 800, "x" + "\u0301" * 60,
    "Herr Dr. Müller z. B. liest. Und 3. Mai. „Was?“ Ja!", "Tab\tam\tEnde\t", "  führende Leerzeichen",
    "Leerzeichen am Ende  ", "$NAME ${x} {{ y }} {% if %} %(z)s __A__ %1$d %%", "Der Hund. " * 20, "42", "[4]", "***",
    "😀", "{name}", "ខ្ញុំស្រឡាញ់ភាសាខ្មែរ", "Cằn ca\u0306\u0300n", "١٥ كتاب", "a\u0085b", "Hund\ufffd",
]  # fmt: skip
"""Lines that went wrong once, or might."""

WORDS = [*_listed("words"), *"\u0301 \u200b \u00ad \u200d \u2028 \u00a0 \u3000 \ufeff \x07 \x1b"[::2]]
SPACES = [*" " * 12, "", "  ", "\t", "\u00a0", "\u3000", ". ", "! ", " - "]
RANGES = [
    (32, 126), (160, 0x24F), (0x300, 0x36F), (0x370, 0x1FFF), (0x2000, 0x206F), (0x3000, 0x30FF), (0x4E00, 0x4EFF),
    (0x1F300, 0x1F6FF), (0, 31),
]  # fmt: skip
"""Code points of random lines."""

REQUESTED_TEXTS = [
    *ODD[:12], "Der Hund.\n\nEin Mann.", "a\r\nb", "Zeile eins\rZeile zwei", "x\x00y", "\u202eRTL ein Haus", "\ud800",
    "\ufffe", "a" * 300, *ODD[12:19], *ODD[22:30], *ODD[37:],
]  # fmt: skip
"""Texts of requests."""

CODES = _listed("codes")
"""Codes of languages, right and wrong ones."""

_KEYS = _listed("settings")
_VALUES = [
    "1",
    "x",
    "true",
    "null",
    "[]",
    "{}",
    "-1",
    "1e9",
    "0.5",
    "[a,b]",
    "{a: b}",
    "de-en",
    "relu",
    "no",
    "{de: 1}",
]

PAIR = {
    "data": {
        "direction": "de-en", "root": "in", "dir": "data",
        "train": [{"files": {"de": "noisy.de", "en": "noisy.en"}}],
        "valid": {"files": {"de": "t20.de", "en": "t20.en"}},
        "test": {"t": {"files": {"de": "t60.de", "en": "t60.en"}}},
    },
    "tokenizer": {"vocab_size": 600},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1},
    "search": {"beam": 2},
    "training": {
        "run_dir": "run", "max_steps": 30, "warmup_steps": 10, "update_tokens": 600, "max_tokens": 400,
        "validate_every_steps": 15, "save_every_steps": 15, "log_every_steps": 5, "peak_lr": 3e-3, "schedule": "cosine",
        "report_to": [], "compile": "off", "precision": "float32", "device": "cpu",
    },
}  # fmt: skip
"""The settings of `PREPARE` and `TRAIN`."""


def odd_settings() -> list[str]:
    """Settings with odd names and values."""
    return [f"{key}={value}" for key in _KEYS for value in _VALUES[::2]]


def odd_lines(folder: Path, n: int = 300) -> list[str]:
    """Lines of odd words, of random characters, and of the corpus."""
    rng = random.Random(5)
    lines = [*ODD]
    for _ in range(n):
        lines.append("".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randint(0, 14))))
    for _ in range(n // 2):
        lines.append("".join(chr(rng.randint(*rng.choice(RANGES))) for _ in range(rng.randint(1, 25))))
    for name in ("t60.de", "t60.en", "m.fr", "m.cs"):
        lines += read(folder / name)[:30]
    return lines


def odd_pairs(folder: Path, n: int = 300) -> list[tuple[str, str]]:
    """Pairs of odd lines, and of the damaged corpus."""
    rng, lines = random.Random(6), odd_lines(folder)
    pairs = [(rng.choice(lines), rng.choice(lines)) for _ in range(n)]
    return [*pairs, *zip(read(folder / "noisy.de")[:n], read(folder / "noisy.en")[:n], strict=True)]


def read(path: Path) -> list[str]:
    """The lines of a file, which may have carriage returns and line separators in them."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_inputs(folder: Path) -> None:
    """Write all inputs into a new folder."""
    folder.mkdir(parents=True)
    _write_odd(folder)
    _write_clean(folder)
    _write_translation_aids(folder)
    pairs = damaged(*(read(SAMPLE / f"train.{language}")[:1000] for language in ("de", "en")))
    _write_parallel(folder, pairs)
    _write_several(folder)
    _write_systems(folder / "systems")
    (folder / "pair.yaml").write_text(yaml.safe_dump(PAIR, sort_keys=False))


def _write_text(path: Path, lines: Sequence[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def _write_odd(folder: Path) -> None:
    """The odd lines in several encodings and with several ends of lines."""
    text = "".join(f"{line}\n" for line in ODD)
    contents: dict[str, bytes] = {
        "odd.txt": text.encode(),
        "odd_crlf.txt": text.replace("\n", "\r\n").encode(),
        "odd_no_end.txt": text[:-1].encode(),
        "odd_cr.txt": b"Der Hund.\rDie Katze.\rDas Kind.\r",
        "bad_utf8.txt": b"Der Hund.\nDie \xff\xfe Katze.\nEnd\xc3\n",
        "latin1.txt": "Die Bäume und Straßen für Mädchen.\nÜber.\n".encode("latin-1"),
        "utf16.txt": "Der Hund.\nDie Katze.\n".encode("utf-16"),
        "bom.txt": "\ufeffDer Hund.\nDie Katze.\n".encode(),
        "empty.txt": b"",
        "blank.txt": b"\n\n\n",
        "surrogate.txt": b"Der \xed\xa0\x80 Hund\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def _write_clean(folder: Path) -> None:
    """Parts of the test set, paragraphs, text of one language, and labelled text."""
    test = {language: read(SAMPLE / f"test.{language}") for language in ("de", "en")}
    for language, lines in test.items():
        for n in (6, 20, 60):
            _write_text(folder / f"t{n}.{language}", lines[:n])
        _write_text(folder / f"clean.{language}", read(SAMPLE / f"train.{language}")[4000:7000])
        _write_text(folder / f"mono.{language}", [line if i % 50 else "" for i, line in enumerate(lines[100:400])])
    _write_text(folder / "para.txt", [" ".join(test["de"][i : i + 3]) for i in range(0, 24, 3)])
    texts = read(SAMPLE / "train.en")[:800]
    _write_text(folder / "lab.en", texts)
    _write_text(folder / "lab.label", [("pos", "neg", "neutral state")[len(text) % 3] for text in texts])


def _write_translation_aids(folder: Path) -> None:
    """Glossaries, translation memories, beginnings of translations, and terms."""
    src, tgt = read(folder / "t20.de"), read(folder / "t20.en")
    word = src[0].split()[1]
    texts = {
        "gl.tsv": f"Katze\tfeline\nBruder\tsibling\nBuch\ttome\n{word}\tTERM\nan der\tbeside the\n",
        "gl.csv": 'Hund,hound\n"Mann","gentle, man"\nFrau,lady\n',
        "gl_bad.tsv": "Hund\n",
        "gl_two.tsv": "Hund\thound\nHund\tdog\n",
        "gl_blank.tsv": "Hund\t\n\tx\n",
        "gl_header.tsv": "de\ten\nHund\thound\n",
        "gl_three.tsv": "Hund\thound\tnote\n\n# c\nFrau\tlady\n",
        "gl_case.tsv": "hund\thound\nHUND\tHOUND\nStraße\troad\nstrasse\tway\n",
        "gl_reversed.csv": "en,de\nhound,Hund\n",
        "gl_semicolon.csv": 'sep=;\nHund;hound\n"a";\n',
        "gl_km.tsv": "រី\tx\nស្រី\ty\n",
        "block.de": "# c\nFluch\n/Vat+er/\n",
        "block.en": "damn it\nfoo.bar\n",
        "tm.tsv": "".join(f"{a}\t{b}\n" for a, b in zip(src[:10], tgt[10:20], strict=True)),
        "tm_odd.tsv": "سړي\tman\nعلى\tAli\n42\tforty-two\nHerr 7\tMr 7\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{a}</seg></tuv><tuv xml:lang="en-US"><seg>{b}</seg></tuv></tu>'
        for a, b in zip(src[:10], tgt[10:20], strict=True)
    )
    codes = '<tu><tuv xml:lang="de"><seg>Der <ph>x</ph>Hund 7</seg></tuv><tuv xml:lang="en"><seg>Dog 7</seg></tuv></tu>'
    memory = f'<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body>{units}{codes}</body></tmx>'
    (folder / "tm.tmx").write_text(memory, encoding="utf-8")
    changed = [src[0].replace(".", "!"), f"{src[1]} 5", src[2][:-3], "Der Hund 8", src[3].upper(), src[4].lower()]
    _write_text(folder / "fuzzy.txt", changed)
    _write_text(folder / "prefix.txt", ["The", "", "My cat", '"', " the dog", *[""] * 15])
    _write_text(folder / "terms.txt", ["dog", "", "bakery\tpark", "xyzzy", "the", *[""] * 15])


def damaged(src: Sequence[str], tgt: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs with all that cleaning repairs or drops, and some that are clean."""
    mojibake: Callable[[str], str] = lambda text: text.encode().decode("latin-1")  # noqa: E731
    kinds: list[Callable[[str, str], tuple[str, str]]] = [
        lambda a, b: (a, b),
        lambda a, b: (f"{a} &amp; &lt;b&gt;", f"{b} &amp; &lt;b&gt;"),
        lambda a, b: (a.replace(".", " .") + "\u200b", b),
        lambda a, b: (mojibake(a), b.upper() if a.isascii() else b),
        lambda a, _: (a, a),
        lambda a, _: (a, f"{a.lower()}!"),
        lambda a, b: (f"{a} http://x.de/1", f"{b} http://x.de/1" if len(a) % 2 else b),
        lambda a, b: (f"<b>{a}</b>", b if len(a) % 2 else f"<b>{b}</b>"),
        lambda a, b: (f"{a} 12 und 1.000,5", f"{b} 12 and 1,000.5" if len(a) % 2 else f"{b} 13"),
        lambda a, b: (f"{a} Ja. Nein. Gut.", b),
        lambda a, b: (f"{a}\x07", b),
        lambda a, b: (f"{'x' * 70} {a}", b),
        lambda _, b: ("Привет мир как дела сегодня", b),
        lambda _, b: ("", b),
        lambda a, _: (a, "   "),
        lambda a, b: (a, " ".join(reversed(b.split()))),
        lambda a, b: (f"{a} \ufffd", b),
        lambda a, b: (" ".join([a] * 30), " ".join([b] * 30)),
        lambda a, b: (f"ﬁne e\u0301 ｆｕｌｌ {a}", b),
        lambda a, b: (f"{a} Fluch", f"{b} damn it"),
        lambda a, b: (a, b[: len(b) // 5]),
        lambda a, b: (f"„{a}“ — …", f'"{b}" - ...'),
        lambda a, b: (f"{a} {{0}} %s", f"{b} {{0}}"),
        lambda a, b: (b, a),
        lambda a, b: (a.upper(), b.upper()),
    ]
    pairs = [kinds[i % len(kinds)](a, b) for i, (a, b) in enumerate(zip(src, tgt, strict=True))]
    for i in range(60, len(pairs), 40):
        pairs[i] = pairs[i - 50]
    return pairs


def _write_parallel(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """The pairs in all formats that prepare reads."""
    rng = random.Random(3)
    for side, language in enumerate(("de", "en")):
        _write_text(folder / f"noisy.{language}", [pair[side] for pair in pairs])
        text = "".join(f"{pair[side]}\r\n" for pair in pairs)
        (folder / f"noisy_crlf.{language}").write_bytes(text.encode())
    _write_text(folder / "noisy.score", [str(round(rng.random(), 3)) for _ in pairs])
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["id", "de", "en", "document", "score"])
    for i, (a, b) in enumerate(pairs):
        writer.writerow([i, a, b, f"d{i // 40}", round(rng.random(), 2)])
    (folder / "noisy.csv").write_bytes(table.getvalue().encode())
    _write_text(folder / "noisy.tsv", [f"{a}\t{b}" for a, b in pairs])
    records = [
        json.dumps({"translation": {"de": a, "en": b}, "score": rng.random(), "n": None}, ensure_ascii=i % 2 > 0)
        for i, (a, b) in enumerate(pairs)
    ]
    _write_text(folder / "noisy.jsonl", records)
    plain = [tuple(escape("".join(c for c in text if c >= " ")) for text in pair) for pair in pairs]
    (folder / "noisy.tmx").write_text(_tmx(plain), encoding="utf-8")
    (folder / "noisy.xlf").write_text(_xliff(plain), encoding="utf-8")
    (folder / "noisy.po").write_text(_po(pairs[300:900]), encoding="utf-8")
    with zipfile.ZipFile(folder / "moses.zip", "w") as archive:
        for side, language in enumerate(("de", "en")):
            _add(archive, f"C.de-en.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
        _add(archive, "README", "x")
        _add(archive, "C.de-en.scores", "".join(f"{(i % 2) / 2}\n" for i in range(len(pairs))))
    with zipfile.ZipFile(folder / "memories.zip", "w") as archive:
        for name in ("noisy.tsv", "noisy.tmx"):
            _add(archive, f"a/{name}", (folder / name).read_text(encoding="utf-8"))


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), text)


def _tmx(pairs: Sequence[tuple[str, ...]]) -> str:
    units = []
    for i, (a, b) in enumerate(pairs):
        american = '<tuv xml:lang="en-US"><seg>US</seg></tuv>' if i % 9 == 0 else ""
        code = "<ph/>x" if i % 7 == 0 else ""
        units.append(
            f'<tu><prop type="document">d{i // 30}</prop><tuv xml:lang="{"de-DE" if i % 3 else "DE"}"><seg>{a}{code}'
            f'</seg></tuv><tuv xml:lang="en-GB"><seg>{b}</seg></tuv>{american}</tu>\n'
        )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">'
    return f'{head}<header srclang="de" datatype="plaintext"/><body>\n{"".join(units)}</body></tmx>'


def _xliff(pairs: Sequence[tuple[str, ...]], n_files: int = 3) -> str:
    states = ("needs-translation", "final", "translated", "needs-review-translation", "signed-off")
    files = []
    for k in range(n_files):
        units = "".join(
            f'<trans-unit id="{i}"><source>{a}<x id="1"/></source>'
            f'<target state="{states[i % 5]}">{b}</target></trans-unit>'
            for i, (a, b) in enumerate(pairs[k::n_files])
        )
        files.append(f'<file original="f{k}" source-language="de" target-language="en"><body>{units}</body></file>')
    head = '<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    return f"{head}{''.join(files)}</xliff>"


def _po(pairs: Sequence[tuple[str, str]]) -> str:
    entries = ['msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n']
    for i, pair in enumerate(pairs):
        src, tgt = ("".join(c for c in text if c >= " ").replace("\\", "\\\\").replace('"', '\\"') for text in pair)
        flags = "#, fuzzy\n" if i % 17 == 0 else ""
        context = f'msgctxt "c{i}"\n' if i % 5 == 0 else ""
        entries.append(f'{flags}{context}msgid "{tgt}"\nmsgstr "{src}"\n')
    return "\n".join(entries)


def _write_several(folder: Path, n: int = 600) -> None:
    """Text in four languages; `fr` and `cs` are English and German in another spelling."""
    spelling = {
        "fr": str.maketrans("aeiouthy", "éàîôùqgz"),
        "cs": str.maketrans("aeioudst", "áěíóúďšť"),
    }
    texts = {language: read(SAMPLE / f"train.{language}")[2000 : 2000 + n] for language in ("de", "en")}
    texts |= {"fr": [line.translate(spelling["fr"]) for line in texts["en"]]}
    texts |= {"cs": [line.translate(spelling["cs"]) for line in texts["de"]]}
    for language, lines in texts.items():
        _write_text(folder / f"m.{language}", lines[:-60])
        _write_text(folder / f"mv.{language}", lines[-60:])


def _write_systems(folder: Path) -> None:
    """Translations of the test set by six systems, which lose words, and by two with other letters and tokens."""
    folder.mkdir()
    rng, references = random.Random(1), read(folder.parent / "t60.en")
    for name, loss in (("a", 0.1), ("b", 0.12), ("c", 0.4), ("d", 0.1), ("e", 0.05), ("f", 0.06)):
        kept = [[word for word in line.split() if rng.random() > loss] for line in references]
        _write_text(folder / name, [" ".join(words) if rng.random() > 0.03 else "" for words in kept])
        _write_text(folder / f"{name}.sc", [str(rng.random()) for _ in references])
    _write_text(folder / "up", [line.upper() for line in references])
    _write_text(folder / "tokd", [line.replace(".", " .").replace(",", " ,") for line in references])
