"""Does the page of `nmt export --format web` translate in a browser, also without a network, as Node.js does?

    python -m scripts.checks.web_page FOLDER LINES [--run RUN] [--node MODULES] [--pictures DIR]

FOLDER is what `nmt export --format web` has written, LINES a file of text in its source language, of which Node.js
translates the first 50 lines, and the browser ten. The folder is served on the loopback interface without special
headers, as by a static host; all other connections of the browser go to a proxy that counts and refuses them. MODULES
is a directory `node_modules` with @huggingface/transformers, by default installed into a temporary directory (npm, 300
MB). The pictures show the page in several states, sizes and colours: look at them. RUN is the exported run: the
sentences of strange lines must get the ids and the maximum lengths that nmt gives them, and onnxruntime in Python must
translate as Node.js does.

Prints figures as Markdown; the exit status is 1 if anything is wrong. Takes a minute.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from nmt.runs.kinds import Quantization
from nmt.runs.model import Saved, open_saved
from nmt.share.onnx import OnnxSearcher, model_files
from nmt.share.web import _TRANSFORMERS as VERSION
from nmt.text.ids import EOS, UNK
from nmt.translate.configured import conventions_of
from nmt.translate.loading import Translator
from nmt.translate.segment import Segmenter
from nmt.translate.types import Line

Tab = Any
"""`tests.helpers.browser.Tab`."""
ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
N_LINES = 10  # in the browser
N_NODE = 50
N_STRANGE = 300
MOST_SECONDS = 120.0
MIN_EQUAL = 0.98  # Node.js may have another version of ONNX Runtime
LONG_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2
ARABIC = "القطة على السجادة.\nHallo, Welt! Der Hund schläft."
OF_THE_BROWSER = ("googleapis.com", "google.com", "gvt1.com")  # which Chromium asks for updates and the like by itself
WITHOUT_BACKGROUND = [
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--no-first-run", "--disable-features=OptimizationHints,MediaRouter,Translate",
]  # fmt: skip

DRIVER = r"""
import { readFileSync } from "node:fs";
import * as library from "@huggingface/transformers";
import { Translator } from "./translator.js";

const [folder] = process.argv.slice(2), { lines, strange } = JSON.parse(readFileSync(0, "utf8"));
Object.assign(library.env, { allowRemoteModels: false, localModelPath: `${folder}/` });
const json = (name) => {
  try {
    return JSON.parse(readFileSync(`${folder}/model/${name}`, "utf8"));
  } catch {
    return undefined;
  }
};
const about = JSON.parse(readFileSync(`${folder}/about.json`, "utf8"));
const translated = async (library, lines) => {
  const translator = await Translator.load(library, about, json, "model"), translations = [];
  for (const line of lines) {
    let last = "";
    for await (const text of translator.translate(line, 0)) last = text;
    translations.push(last);
  }
  return translations;
};
// instead of a model, one that notes what it is asked for, and returns nothing
const asked = [], empty = [{ tolist: () => [] }];
const noting = {
  config: json("config.json"), generation_config: json("generation_config.json"),
  generate: async ({ input_ids: ids, max_new_tokens: most }) => {
    asked.push([ids.tolist()[0].map(Number), most]);
    return empty;
  },
};
const MarianMTModel = { from_pretrained: async () => noting };
await translated({ ...library, MarianMTModel }, strange);
process.stdout.write(JSON.stringify({ translations: await translated(library, lines), asked }));
"""


class Counted(SimpleHTTPRequestHandler):
    """Serves the folder, and counts bytes by address."""

    protocol_version = "HTTP/1.1"
    sent: dict[str, list[int]]

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        self.sent.setdefault(self.path.partition("?")[0], []).append(len(content))
        outputfile.write(content)


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Serve a folder under /model-page/; yield the port, and the sizes of the answers by address."""
    sent: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "model-page").symlink_to(folder.resolve())
        handler = type("Handler", (Counted,), {"sent": sent})
        server = ThreadingHTTPServer((LOOPBACK, port), partial(handler, directory=root))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port, sent
        finally:
            server.shutdown()
            server.server_close()


@contextmanager
def refusing() -> Iterator[tuple[int, list[str]]]:
    """Run a proxy that refuses everything; yield its port, and the requests."""
    asked: list[str] = []

    class Refusal(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked.append(self.rfile.readline().decode("latin-1").strip())

    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Refusal) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def by_node(folder: Path, modules: Path, lines: Sequence[str], strange: Sequence[str]) -> tuple[list[str], list[Any]]:
    """Return the translations of lines by Node.js, and the ids and maximum lengths of the sentences of other lines."""
    question = {"lines": lines, "strange": strange}
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        for path in folder.glob("*.js"):
            shutil.copy(path, work)
        (work / "node_modules").symlink_to(modules.resolve())
        (work / "package.json").write_text('{"type": "module"}')
        (work / "driver.js").write_text(DRIVER)
        command = ["node", "driver.js", str(folder.resolve())]
        done = subprocess.run(
            command, cwd=work, input=json.dumps(question).encode(), stdout=subprocess.PIPE, check=True
        )
    answer = json.loads(done.stdout)
    return answer["translations"], answer["asked"]


def by_nmt(saved: Saved, lines: Sequence[str]) -> list[list[object]]:
    """Return the ids and maximum lengths for which nmt searches, without those of equal sentences."""
    config = saved.config
    choices = saved.tokenizers[config.data.src].target_languages
    search = config.search
    if search.to is None:
        search = search.model_copy(update={"to": next(iter(choices), None)})
    longest = config.model.max_positions if config.model.positions == "learned" else None
    segmenter = Segmenter(saved.tokenizers, conventions_of(config.data, config.training), longest)
    sentences = segmenter.split_lines([*map(Line, lines)], search)
    asked = dict[str, list[object]]()
    for sentence in chain.from_iterable(sentences):
        if sentence.src_ids:
            asked.setdefault(sentence.text, [[*sentence.src_ids, EOS], sentence.max_length])
    return [*asked.values()]


def by_runtime(folder: Path, saved: Saved, lines: Sequence[str]) -> list[str]:
    """Return the translations of lines by ONNX Runtime, one at a time, since numbers are rounded by batch in 8 bits."""
    config = saved.config
    quantization: Quantization = "int8" if model_files(folder / "model", "int8")[0].exists() else "float32"
    never_written = saved.tokenizers[config.data.tgt].never_written(config.joins_sentences)
    searcher = OnnxSearcher(folder / "model", quantization, never_written)
    translator = Translator.configured(searcher, saved.tokenizers, config).by_direction()[0]
    search = config.search.model_copy(update={"beam": 1})
    if search.to is None and (choices := saved.tokenizers[config.data.src].target_languages):
        search = search.model_copy(update={"to": next(iter(choices))})
    translations = []
    for line in lines:
        [[best, *_]] = translator.translate_lines([line], search)
        translations.append(best.text)
    return translations


def installed(folder: Path) -> Path:
    """Install transformers.js for Node.js."""
    environment = {**os.environ, "ONNXRUNTIME_NODE_INSTALL_CUDA": "skip"}
    command = [
        "npm",
        "install",
        "--prefix",
        str(folder),
        "--no-audit",
        "--no-fund",
        f"@huggingface/transformers@{VERSION}",
    ]
    subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    return folder / "node_modules"


def wait(tab: Tab, condition: str, seconds: float = MOST_SECONDS) -> None:
    """Wait until an expression is true in the page, which may be reloaded meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if tab.evaluate(f"Boolean({condition})"):
                return
        except AssertionError:  # the page is being replaced
            pass
        time.sleep(0.02)
    raise TimeoutError(f"{condition}: {tab.evaluate('document.body.innerText')}")


READY = "document.getElementById('load-state')?.textContent.startsWith('The translator is ready')"
KEPT = "document.getElementById('load-state')?.textContent.includes('offline')"
OFFERED = "document.getElementById('loader')?.hidden === false"
DONE = "document.getElementById('result').ariaBusy === 'false' && document.getElementById('result').children.length"
SHOWN = "[...document.querySelectorAll('#result > span')].map(line => line.textContent)"


def write(tab: Tab, text: str) -> None:
    """Replace the text as a visitor does."""
    tab.evaluate("document.getElementById('text').focus(), document.getElementById('text').select()")
    tab.call("Input.insertText", text=text)
    if not text:
        tab.evaluate("document.getElementById('clear').click()")


def translate(tab: Tab, lines: Sequence[str]) -> tuple[list[str], float]:
    """Return the translations of lines, and the seconds that they took."""
    begin = time.monotonic()
    write(tab, "\n".join(lines))
    wait(tab, "document.getElementById('result').ariaBusy === 'true'", 5)
    wait(tab, DONE)
    shown: list[str] = tab.evaluate(SHOWN)
    return shown, time.monotonic() - begin


def picture(tab: Tab, path: Path) -> None:
    """Write a picture of the page."""
    answer = tab.call("Page.captureScreenshot", captureBeyondViewport=True)
    path.write_bytes(base64.b64decode(answer["data"]))


def pictures(tab: Tab, folder: Path, name: str) -> None:
    """Write pictures of the page as it is, wide and narrow, light and dark."""
    for size, (width, height) in {"wide": (1100, 800), "narrow": (390, 844)}.items():
        for dark in (False, True):
            tab.size(width, height, dark)
            time.sleep(0.2)
            overflow = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, f"{name} {size}: {overflow} pixels too wide"
            picture(tab, folder / f"{name}-{size}-{'dark' if dark else 'light'}.png")
    tab.size(1100, 800)


def check(folder: Path, lines: Sequence[str], expected: Sequence[str], output: Path) -> Iterator[tuple[str, str]]:
    """Yield facts about the page in a browser; raises AssertionError if it does something wrong."""
    sys.path.append(str(ROOT / "tests" / "helpers"))
    browser = import_module("browser")
    assert browser.CHROMIUM is not None, "no Chromium on PATH"
    large = [path for part in ("lib", "model") for path in (folder / part).rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield "folder", megabytes(total)
    yield "translator (lib, model)", megabytes(sum(path.stat().st_size for path in large))
    with ExitStack() as stack:
        proxy, asked = stack.enter_context(refusing())
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        options = [f"--proxy-server=http://{LOOPBACK}:{proxy}", *WITHOUT_BACKGROUND]
        tab = stack.enter_context(browser.chromium(Path(profile), *options))
        tab.size(1100, 800)
        with serving(folder) as (port, sent):
            url = f"http://{LOOPBACK}:{port}/model-page/"
            begin = time.monotonic()
            tab.call("Page.navigate", url=url)
            wait(tab, OFFERED)
            yield "first load", f"{megabytes(n_bytes(sent))}, {time.monotonic() - begin:.1f} s"
            assert not any("/lib/" in name or "/model/" in name for name in sent), sorted(sent)
            yield "isolated", str(tab.evaluate("crossOriginIsolated"))
            pictures(tab, output, "first")
            begin = time.monotonic()
            tab.evaluate("document.getElementById('load').click()")
            wait(tab, "document.getElementById('progress').value > 0 || " + READY)
            picture(tab, output / "loading.png")
            wait(tab, READY)
            yield "translator loaded in", f"{time.monotonic() - begin:.1f} s"
            wait(tab, KEPT, 20)
            yield "bytes of the first visit", megabytes(n_bytes(sent))
            twice = {name: sizes for name, sizes in sent.items() if len(sizes) > 1 and sum(sizes) > 1e5}
            assert not twice, f"downloaded twice: {twice}"
            shown, seconds = translate(tab, lines)
            assert shown == [*expected], differences(shown, expected)
            yield f"{len(lines)} lines as in Node.js", f"{1000 * seconds / len(lines):.0f} ms a line"
            pictures(tab, output, "translated")
            tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
            pictures(tab, output, "card")
            tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = false")
            translate(tab, [LONG_WORD, ARABIC])
            pictures(tab, output, "words")
            one = [translate(tab, [f"{line} "])[1] for line in lines]
            yield "one line, typed", f"{1000 * statistics.median(one):.0f} ms, of which 300 ms are the pause"
        n_before = sum(map(len, sent.values()))
        begin = time.monotonic()
        tab.call("Page.navigate", url="about:blank")
        tab.call("Page.navigate", url=url)
        wait(tab, READY)
        yield "second visit, without the server", f"ready in {time.monotonic() - begin:.1f} s"
        shown, _ = translate(tab, lines)
        assert shown == [*expected], differences(shown, expected)
        assert sum(map(len, sent.values())) == n_before
        asked = [request for request in asked if not any(host in request for host in OF_THE_BROWSER)]
        assert not asked, f"asked for other hosts: {asked}"
        complaints = [complaint for complaint in tab.complaints if "favicon" not in complaint]
        yield "requests to other hosts, complaints of the browser", f"{len(asked)}, {len(complaints)} {complaints[:2]}"


def strange_lines(n: int = N_STRANGE) -> list[str]:
    """Return made-up lines with characters that tokenizers treat differently."""
    rng = random.Random(1)
    signs = "abcXYZ.!?;:,|\"'„“”«»()[]{}<>&%0189 \t\u2581äéßñ"
    unseen = "\u00a0\u202f\u200b\u200d\u200e\u00ad\ufeff\x00\x1c\x85\u2028"
    pieces = [
        "</s>",
        "<s>",
        "<unk>",
        "<0x41>",
        "<reserved_3>",
        ">>en<<",
        "z. B. ",
        "Dr. ",
        "a. ",
        "{{ x }}",
        ". ",
        "! ",
    ]
    others = ["e\u0301", "u\u0308", "\u0301", "你好。", "안녕", "नमस्ते।", "ሰላም።", "สวัสดี", "😀", "👩\u200d🔬", "🇩🇪"]
    words = ["Der Hund", " schläft", " heute", " nicht", "Die Katze", " Straße", " 3. Mai"]
    parts = [*signs, *unseen, *pieces, *others, *words * 4]
    return ["".join(rng.choices(parts, k=rng.choice((5, 30, 200, 1500)))) for _ in range(n)]


def n_bytes(sent: dict[str, list[int]]) -> int:
    return sum(map(sum, sent.values()))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def differences(shown: Sequence[str], expected: Sequence[str]) -> str:
    """Return the lines that differ."""
    return "\n".join(f"{one!r} is not {other!r}" for one, other in zip(shown, expected, strict=False) if one != other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--node", type=Path)
    parser.add_argument("--pictures", type=Path, default=Path("pictures"))
    options = parser.parse_args()
    with options.lines.open(encoding="utf-8") as file:
        every_line = [line.rstrip("\n") for line in islice(file, N_STRANGE)]
    lines = every_line[:N_NODE]
    saved = open_saved(options.run) if options.run is not None else None
    # transformers.js only approximates how SentencePiece normalises strange characters for public models
    strange = every_line if saved is not None and saved.tokenizers.imported else [*every_line, *strange_lines()]
    options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        modules = options.node or installed(Path(scratch))
        expected, asked = by_node(options.folder, modules, lines, strange)
    if saved is not None:
        wanted = by_nmt(saved, strange)
        n = len(saved.tokenizers[saved.config.data.src])  # the model embeds further pieces as unknown ones
        asked = [[[i if i < n else UNK for i in ids], most] for ids, most in asked]
        different = [pair for pair in zip_longest(asked, wanted) if pair[0] != pair[1]]
        if different:
            sys.exit(f"wrong: {len(different)} of {len(wanted)} sentences have other ids, such as {different[0]}")
        print(f"{len(wanted):,} sentences of {len(strange):,} lines have the ids and maximum lengths of nmt")
        runtime = by_runtime(options.folder, saved, lines)
        n_equal = sum(map(str.__eq__, runtime, expected))
        print(f"{n_equal} of {len(lines)} translations of Node.js are those of onnxruntime\n")
        if n_equal < MIN_EQUAL * len(lines):
            sys.exit(f"wrong: {differences(expected, runtime)}")
    print("| | |\n|---|---|")
    try:
        for name, value in check(options.folder, lines[:N_LINES], expected[:N_LINES], options.pictures):
            print(f"| {name} | {value} |", flush=True)
    except (AssertionError, TimeoutError) as error:
        sys.exit(f"wrong: {error}")


if __name__ == "__main__":
    main()
