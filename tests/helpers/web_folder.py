"""The folder of `nmt export --format web` with stand-ins for the model and for the libraries that run it."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from nmt.config import Config
from nmt.share import web
from nmt.text.vocabularies import Tokenizers
from tiny_run import tiny_config, tiny_tokenizer

# Translates a text into capital letters; "slow" takes a while, "full" fails for lack of memory.
TRANSFORMERS = """\
import{Tensor as nk}from"onnxruntime-common";import*as RM from"onnxruntime-web/webgpu";
export const Tensor = nk, env = { backends: { onnx: { wasm: RM.wasm } } };
export class StoppingCriteria {}
export class PreTrainedTokenizer {
  encode(text) {
    return Array.from(text, (character) => 1000 + character.codePointAt(0));
  }
  decode(ids) {
    return String.fromCodePoint(...ids.filter((id) => id >= 1000).map((id) => id - 1000));
  }
}
export const MarianMTModel = {
  async from_pretrained(name) {
    for (const file of ["onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"]) {
      const answer = await env.fetch(new URL(`${name}/${file}`, env.localModelPath));
      if (!answer.ok) throw new Error(`${file}: ${answer.status}`);
    }
    return { config: { eos_token_id: 3 }, generate };
  },
};
async function generate({ input_ids: { values }, stopping_criteria: criterion }) {
  const text = new PreTrainedTokenizer().decode(values.map(Number));
  if (text === "full") throw new RangeError("Array buffer allocation failed");
  const translation = text === "مرحبا" ? "HELLO" : text.toUpperCase().replace("HELLO", "مرحبا");
  for (let i = 0; i < 1000 && text.includes("slow") && !criterion._call([[]])[0]; i++)
    await new Promise((done) => setTimeout(done, 20));
  return [{ tolist: () => [2, ...new PreTrainedTokenizer().encode(translation), 3] }];
}
"""
RUNTIME = """\
export class Tensor {
  constructor(type, values) {
    this.values = Array.from(values);
  }
}
export const wasm = {};
"""


def make_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write small npm packages, of which `copy_libraries` takes the files."""
    folder.mkdir()
    contents = {
        "dist/transformers.web.min.js": TRANSFORMERS.encode(), "LICENSE": b"Apache License",
        "dist/ort.wasm.bundle.min.mjs": RUNTIME.encode(), "dist/ort-wasm-simd-threaded.wasm": bytes(300_000),
    }  # fmt: skip
    libraries = []
    archives: dict[str, dict[str, bytes]] = {}
    for archive, member, name, _ in web.LIBRARIES:
        archives.setdefault(archive, {})[f"package/{member}"] = contents[member]
        libraries.append([archive, member, name, sha256(contents[member]).hexdigest()])
    for archive, members in archives.items():
        with tarfile.open(folder / archive, "w:gz") as file:
            for name, content in {**members, "package/package.json": b"{}"}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))
    monkeypatch.setattr(web, "LIBRARIES", libraries)
    return folder


def make_model(folder: Path) -> None:
    """Write a directory like that of `nmt export --format onnx`."""
    characters = {chr(code): code for code in range(20, 0x250)}
    added = [{"id": 3, "content": "</s>", "special": True}]
    for i, name in enumerate(("de", "en", "fr"), 600):
        added.append({"id": i, "content": f">>to={name}<<", "special": False})
    vocabulary = {"added_tokens": added, "model": {"vocab": characters}}
    files = {
        "tokenizer.json": json.dumps(vocabulary), "tokenizer_config.json": '{"model_max_length": 1000}',
        "config.json": "{}", "generation_config.json": "{}", "README.md": "# Card", "translator.json": "{}",
        "onnx/encoder_model.onnx": "e" * 200_000, "onnx/decoder_model_merged.onnx": "d" * 100_000,
    }  # fmt: skip
    (folder / "onnx").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def make_folder(
    folder: Path,
    packages: Path,
    config: Config | None = None,
    tokenizers: Tokenizers | None = None,
    card: str = "# A model",
    licence: str | None = "cc-by-4.0",
) -> Path:
    """Write the folder, by default for German to English."""
    config = config or tiny_config()
    tokenizers = tokenizers or Tokenizers(dict.fromkeys(config.data.all_languages, tiny_tokenizer()), joint=True)
    make_model(folder / "model")
    web.copy_libraries(folder, packages)
    web.write_page(folder, config, tokenizers, card, licence)
    return folder


def with_directions(config: Config, *directions: str) -> Config:
    """Return a configuration of several directions."""
    data = config.data.model_copy(update={"directions": [*directions], "direction": directions[0]})
    return config.model_copy(update={"data": data})
