"""Write `nmt/share/splitter.onnx`, the sentence splitter in packages for Argos Translate, in the format of MiniSBD.

    pip install onnx
    python -m scripts.argos_splitter

Without a splitter in the package, Argos Translate downloads one. This one follows the rules of `nmt.text.split`: a
sentence ends after `.`, `!`, `?` and the like, and closing quotes, before white space that no lowercase letter follows,
but not after an abbreviation such as "z. B.", "Dr." or "3."; and after the marks of scripts without spaces. The rules
are the weights of a convolutional network, because MiniSBD reads nothing else. Each hidden unit recognises one pattern
of characters. Letters are those of alphabets with two cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "nmt" / "share" / "splitter.onnx"
MARKS, WIDE_MARKS = ".!?…؟۔।॥", "。！？｡።။"
CLOSING = "\"'”“’‘»«›‹)]}」』）】》〉"
OPENING = "\"'„”“‚’‘»«›‹([{¿¡–—-"
CASED = [*range(0x41, 0x590), *range(0x1E00, 0x2000)]  # Latin, Greek, Cyrillic, Armenian
SPECIAL = ["<PAD>", "<UNK>"]
PROPERTIES = ["mark", "stop", "case", "wide", "closing", "opening", "space", "lower", "letter", "consonant", "digit"]
BEFORE, AFTER = 5, 3  # characters that a pattern may look at
MOST_CLOSING = 2

Condition = tuple[int, str, bool]
"""Distance from the character in question, a property, and whether the character there must have it."""


def properties(character: str) -> list[float]:
    """Return 1 or 0 for each of the `PROPERTIES` of a character."""
    letter = character.isalpha() and ord(character) in CASED
    return [
        character in MARKS,
        character == ".",
        character in ".!?…",
        character in WIDE_MARKS,
        character in CLOSING,
        character in OPENING,
        character == " ",
        character.islower(),
        letter,
        character.lower() in set("bcdfghjklmnpqrstvwxz"),
        character in "0123456789",
    ]


def ends() -> Iterator[list[Condition]]:
    """Yield the patterns of the last character of a sentence: a mark or closing quotes after it."""
    for n in range(MOST_CLOSING + 1):
        after = [(-i, "closing", True) for i in range(n)]
        yield [(-n, "mark", True), *after, (1, "space", True)]
        yield [(-n, "wide", True), *after, (1, "wide", False), (1, "closing", False)]


def exceptions() -> Iterator[list[Condition]]:
    """Yield the patterns of a character that looks like the end of a sentence but is not."""
    for n in range(MOST_CLOSING + 1):  # the sentence goes on in lower case, perhaps after a quote
        mark = [(-n, "case", True), *((-i, "closing", True) for i in range(n)), (1, "space", True)]
        yield [*mark, (2, "lower", True)]
        yield [*mark, (2, "opening", True), (3, "lower", True)]
    for kind, lengths in {"letter": (1,), "digit": (1, 2), "consonant": (2, 3, 4)}.items():
        for n in lengths:
            word = [(-i, kind, True) for i in range(1, n + 1)]
            small = [(-i, "lower", True) for i in range(1, n)] if kind == "consonant" else []
            before = [(-n - 1, name, False) for name in ("letter", "digit")]
            yield [(0, "stop", True), (1, "space", True), *word, *small, *before]


def main() -> None:
    """Build the network, units (B, L) -> predictions (B, L, 3), and write it. MiniSBD also passes features, unused."""
    from onnx import TensorProto, checker, helper, numpy_helper

    characters = sorted({*MARKS, *WIDE_MARKS, *CLOSING, *OPENING, " ", *"0123456789"} | set(map(chr, CASED)))
    table = np.array([[0.0] * len(PROPERTIES)] * len(SPECIAL) + [properties(one) for one in characters], np.float32)
    wanted, unwanted = [*ends()], [*exceptions()]
    patterns = [*wanted, *unwanted]
    weights = np.zeros((len(patterns), len(PROPERTIES), BEFORE + 1 + AFTER), np.float32)
    for weight, pattern in zip(weights, patterns, strict=True):
        for distance, name, has_it in pattern:
            weight[PROPERTIES.index(name), BEFORE + distance] = 1 if has_it else -1
    # a unit is 1 if its whole pattern is there, else 0
    biases = np.array([1 - sum(has_it for *_, has_it in pattern) for pattern in patterns], np.float32)
    output = np.zeros((3, len(patterns), 1), np.float32)  # classes: within a token, its end, the end of a sentence
    output[2] = np.array([[2.0]] * len(wanted) + [[-2.0 * len(wanted)]] * len(unwanted))
    priors = np.array([1, -1, 0], np.float32)  # without a pattern, a character is within a token
    tensors = {"table": table, "weights": weights, "biases": biases, "output": output, "priors": priors}
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "units"], ["properties"]),
            helper.make_node("Transpose", ["properties"], ["by_property"], perm=[0, 2, 1]),
            helper.make_node("Conv", ["by_property", "weights", "biases"], ["matches"], pads=[BEFORE, AFTER]),
            helper.make_node("Relu", ["matches"], ["recognised"]),
            helper.make_node("Conv", ["recognised", "output", "priors"], ["by_class"]),
            helper.make_node("Transpose", ["by_class"], ["predictions"], perm=[0, 2, 1]),
        ],
        "splitter",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["B", "L"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["B", "L", "F"]),
        ],
        [helper.make_tensor_value_info("predictions", TensorProto.FLOAT, ["B", "L", "C"])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, producer_name="nmt", ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    units = {one: i for i, one in enumerate([*SPECIAL, *characters])}
    config = {"feat_funcs": [], "batch_size": 32}
    vocabulary = {"lang": "any", "_unit2id": units}
    metadata = {"lang_code": "any", "config": json.dumps(config), "vocab": json.dumps(vocabulary)}
    helper.set_model_props(model, metadata)
    checker.check_model(model)
    TARGET.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
