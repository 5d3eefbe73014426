"""The encoder and the decoder of a model as ONNX graphs, with the inputs and outputs that transformers.js expects.

One graph decodes the first token and all others: it computes keys and values of the source for the positions that their
cache lacks, which are all at first and none later. So it needs neither branches nor a second copy of the weights.

In 8 bits, each row of a weight has a scale, and products are of integers, whose inputs are scaled in each product.
Weights are unsigned, since some processors overflow when they multiply signed by unsigned numbers.

Legend: B sentences, S source length, L new tokens, P tokens before them, D width, V vocabulary, H heads, E = D / H.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nmt.model.transformer import Decoder, Encoder, Transformer

# Graphs are written in ONNX's own syntax, https://onnx.ai/onnx/repo-docs/Syntax.html, with the names that weights have
# in a stack. In the text of a layer, # stands for its number, @ for that of the next one, and a prefix in brackets for
# the weights whose names begin with it. Functions have all arguments that one of their variants needs.

if TYPE_CHECKING:
    import onnx

_OPERATORS = 'opset_import: ["" : 20, "nmt" : 1]'  # 20: the first version with Gelu

_ENCODER = """
zero = Constant <value = int64[1] {0}> ()
length = Shape <start = 1> (input_ids)
positions = nmt.range (zero, length)
x_0 = nmt.embed (input_ids, positions, "embedding.weight", "embedding.weight.scales", factor, places, "places.scales")
bias = nmt.padding (attention_mask)
"""
_DECODER = """
zero = Constant <value = int64[1] {0}> ()
one = Constant <value = int64[1] {1}> ()
end_of_source = Constant <value = int64[1] {2147483647}> ()
start = Shape <start = 2, end = 3> ("past_key_values.0.decoder.key")
length = Shape <start = 1> (input_ids)
end = Add (start, length)
positions = nmt.range (start, end)
x_0 = nmt.embed (input_ids, positions, "embedding.weight", "embedding.weight.scales", factor, places, "places.scales")
earlier = nmt.range (zero, end)
rows = Unsqueeze (positions, one)
is_visible = LessOrEqual (earlier, rows)
bias = nmt.hide (is_visible)
source_bias = nmt.padding (encoder_attention_mask)
n_known = Shape <start = 2, end = 3> ("past_key_values.0.encoder.key")
new_source = Slice (encoder_hidden_states, n_known, end_of_source, one)
"""
_SELF_ATTENTION = """
in_1_# = before[attention_residual.norm.] (x_#)
projected_# = linear[attention.in_] (in_1_#)
heads_# = nmt.split (projected_#, shape_3)
queries_#, new_keys_#, new_values_# = Split <axis = 1, num_outputs = 3> (heads_#)
"""
_NO_CACHE = """
keys_# = Identity (new_keys_#)
values_# = Identity (new_values_#)
"""
_CACHE = """
keys_# = Concat <axis = 2> ("past_key_values.#.decoder.key", new_keys_#)
values_# = Concat <axis = 2> ("past_key_values.#.decoder.value", new_values_#)
"present.#.decoder.key" = Identity (keys_#)
"present.#.decoder.value" = Identity (values_#)
"""
_ATTENDED = """
attended_# = nmt.attend (queries_#, keys_#, values_#, bias, scale, shape_0)
out_1_# = linear[attention.output.] (attended_#)
y_# = after[attention_residual.norm.] (x_#, out_1_#)
"""
_NO_CROSS_ATTENTION = """
z_# = Identity (y_#)
"""
_CROSS_ATTENTION = """
in_2_# = before[cross_attention_residual.norm.] (y_#)
asked_# = linear[cross_attention.query.] (in_2_#)
cross_queries_# = nmt.split (asked_#, shape_1)
source_# = linear[cross_attention.memory.] (new_source)
source_heads_# = nmt.split (source_#, shape_2)
new_source_keys_#, new_source_values_# = Split <axis = 1, num_outputs = 2> (source_heads_#)
source_keys_# = Concat <axis = 2> ("past_key_values.#.encoder.key", new_source_keys_#)
source_values_# = Concat <axis = 2> ("past_key_values.#.encoder.value", new_source_values_#)
"present.#.encoder.key" = Identity (source_keys_#)
"present.#.encoder.value" = Identity (source_values_#)
cross_attended_# = nmt.attend (cross_queries_#, source_keys_#, source_values_#, source_bias, scale, shape_0)
out_2_# = linear[cross_attention.output.] (cross_attended_#)
z_# = after[cross_attention_residual.norm.] (y_#, out_2_#)
"""
_FEED_FORWARD = """
in_3_# = before[feed_forward_residual.norm.] (z_#)
wide_# = linear[feed_forward.inner.] (in_3_#)
active_# = nmt.activate (wide_#)
out_3_# = linear[feed_forward.outer.] (active_#)
x_@ = after[feed_forward_residual.norm.] (z_#, out_3_#)
"""
_OUTPUT = """
columns = Transpose <perm = [1, 0]> ("TABLE")
products = nmt.multiply ("TABLE.scales", columns, hidden)
logits = Add (products, output_bias)
"""
"""The output layer. Runtimes transpose the table once, when they load the model."""
_TABLES = ("embedding.weight", "output", "places")
"""Matrices of which rows are read, so that they are not transposed."""
_LAYERS = {
    Encoder: _SELF_ATTENTION + _NO_CACHE + _ATTENDED + _NO_CROSS_ATTENTION + _FEED_FORWARD,
    Decoder: _SELF_ATTENTION + _CACHE + _ATTENDED + _CROSS_ATTENTION + _FEED_FORWARD,
}
"""The text of a layer."""
_WITH_WEIGHTS = {
    r"linear\[(.+?)\] \(": r'nmt.linear ("layers.#.\1weight", "layers.#.\1weight.scales", "layers.#.\1bias", ',
    r"(before|after)\[(.+?)\] \(": r'nmt.\1 ("layers.#.\2weight", "layers.#.\2bias", ',
}
"""Calls with a prefix of weights, as patterns, and what they stand for."""
_FUNCTIONS = {
    "range (start, end) => (numbers)": """
        first = Squeeze (start)
        last = Squeeze (end)
        step = Constant <value_int = 1> ()
        numbers = Range (first, last, step)""",
    "embed (ids, positions, table, scales, factor, places, place_scales) => (x)": """
        rows = nmt.gather (ids, table, scales)
        scaled = Mul (rows, factor)
        place = nmt.gather (positions, places, place_scales)
        x = Add (scaled, place)""",
    "hide (is_visible) => (bias)": """
        nothing = Constant <value_float = 0.0> ()
        hidden = Constant <value_float = -1e9> ()
        bias = Where (is_visible, nothing, hidden)""",
    "padding (mask) => (bias)": """
        is_token = Cast <to = 9> (mask)
        dims = Constant <value_ints = [1, 2]> ()
        is_visible = Unsqueeze (is_token, dims)
        bias = nmt.hide (is_visible)""",
    "split (x, shape) => (heads)": """
        parts = Reshape (x, shape)
        heads = Transpose <perm = [0, 2, 1, 3]> (parts)""",
    "attend (query, keys, values, bias, scale, shape) => (x)": """
        columns = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (query, columns)
        scaled = Mul (products, scale)
        scores = Add (scaled, bias)
        probs = Softmax <axis = -1> (scores)
        sums = MatMul (probs, values)
        heads = Transpose <perm = [0, 2, 1, 3]> (sums)
        x = Reshape (heads, shape)""",
    "linear (weight, scales, bias, x) => (y)": """
        products = nmt.multiply (scales, weight, x)
        y = Add (products, bias)""",
}
_NORM = {
    "pre": {
        "before (scale, shift, x) => (y)": "y = LayerNormalization <axis = -1, epsilon = EPSILON> (x, scale, shift)",
        "after (scale, shift, x, output) => (y)": "y = Add (x, output)",
    },
    "post": {
        "before (scale, shift, x) => (y)": "y = Identity (x)",
        "after (scale, shift, x, output) => (y)": """
            sum = Add (x, output)
            y = LayerNormalization <axis = -1, epsilon = EPSILON> (sum, scale, shift)""",
    },
}
_PRODUCTS = {
    False: {
        "gather (ids, table, scales) => (rows)": "rows = Gather (table, ids)",
        "multiply (scales, weight, x) => (y)": "y = MatMul (x, weight)",
    },
    True: {
        "gather (ids, table, scales) => (rows)": """
            bytes = Gather (table, ids)
            numbers = Cast <to = 1> (bytes)
            middle = Constant <value_float = 128.0> ()
            moved = Sub (numbers, middle)
            scale = Gather (scales, ids)
            last = Constant <value_ints = [-1]> ()
            column = Unsqueeze (scale, last)
            rows = Mul (moved, column)""",
        "multiply (scales, weight, x) => (y)": """
            bytes, scale, zero = DynamicQuantizeLinear (x)
            middle = Constant <value = uint8[1] {128}> ()
            zero_of_weight = Squeeze (middle)
            sums = MatMulInteger (bytes, weight, zero, zero_of_weight)
            numbers = Cast <to = 1> (sums)
            all_scales = Mul (scale, scales)
            y = Mul (numbers, all_scales)""",
    },
}
"""How a table is read and numbers are multiplied, in float32 and in 8 bits."""


def encoder_graph(model: Transformer, rows: Sequence[int], n_positions: int, int8: bool) -> onnx.ModelProto:
    """Return a model that maps input_ids and attention_mask (B, S) int64 to last_hidden_state (B, S, D) float32.

    rows: the row of the source embedding for each id of the tokenizer. n_positions: maximum of S.
    """
    stack = model.encoder
    table = stack.embedding.weight[rows]
    inputs = "int64[batch_size, source] input_ids, int64[batch_size, source] attention_mask"
    output = f"float[batch_size, source, {table.size(1)}] last_hidden_state"
    graph = f"nmt ({inputs}) => ({output}) {{{_ENCODER}{_layers(stack)}last_hidden_state = Identity (hidden)}}"
    return _model(stack, graph, {"embedding.weight": table}, n_positions, int8)


def decoder_graph(model: Transformer, n_positions: int, int8: bool) -> onnx.ModelProto:
    """Return a model that decodes L tokens after P others.

    It maps input_ids (B, L) int64, encoder_hidden_states (B, S, D) float32, encoder_attention_mask (B, S) int64 and
    past_key_values.N.decoder.key (B, H, P, E), the same of values and of the encoder, to logits (B, L, V) float32 and
    present.N.decoder.key and so on, which are the next past_key_values. n_positions: maximum of P + L.
    """
    stack = model.decoder
    n_pieces, width = model.output_weight.shape
    n_heads = stack.layers[0].attention.n_heads
    memory = f"float[batch_size, source, {width}] encoder_hidden_states"
    inputs = ["int64[batch_size, length] input_ids", memory, "int64[batch_size, source] encoder_attention_mask"]
    outputs = [f"float[batch_size, length, {n_pieces}] logits"]
    for number, side, part in product(range(len(stack.layers)), ("decoder", "encoder"), ("key", "value")):
        for when, names in (("past_key_values", inputs), ("present", outputs)):
            shape = f"batch_size, {n_heads}, {when}_{side}, {width // n_heads}"
            names.append(f'float[{shape}] "{when}.{number}.{side}.{part}"')
    table = "embedding.weight" if model.output is None else "output"
    bias = torch.zeros(n_pieces) if model.output_bias is None else model.output_bias
    output = _OUTPUT.replace("TABLE", table)
    graph = f"nmt ({', '.join(inputs)}) => ({', '.join(outputs)}) {{{_DECODER}{_layers(stack)}{output}}}"
    return _model(stack, graph, {table: model.output_weight, "output_bias": bias}, n_positions, int8)


def _layers(stack: Encoder | Decoder) -> str:
    """Return the text of the layers and the last norm."""
    text = _LAYERS[type(stack)]
    for call, full in _WITH_WEIGHTS.items():
        text = re.sub(call, full, text)
    n = len(stack.layers)
    parts = [text.replace("#", str(i)).replace("@", str(i + 1)) for i in range(n)]
    is_normed = isinstance(stack.norm, nn.LayerNorm)
    norm = f'nmt.before ("norm.weight", "norm.bias", x_{n})' if is_normed else f"Identity (x_{n})"
    return "".join([*parts, f"hidden = {norm}\n"])


def _model(
    stack: Encoder | Decoder, graph: str, tensors: Mapping[str, Tensor], n_positions: int, int8: bool
) -> onnx.ModelProto:
    """Return a model of the text of a graph, without gradients. tensors: its constants that are not in the stack."""
    from onnx import inliner, numpy_helper, parser  # optional

    layer = stack.layers[0]
    residual = layer.attention_residual
    norms = _NORM["pre" if residual.pre else "post"]
    activate = {"activate (x) => (y)": layer.feed_forward.activation.onnx}
    text = f'<ir_version: 9, producer_name: "nmt", {_OPERATORS}>\n{graph}'
    for head, body in (_FUNCTIONS | norms | activate | _PRODUCTS[int8]).items():
        text += f'\n<domain: "nmt", {_OPERATORS}>\n{head} {{{body}}}'
    text = text.replace("EPSILON", f"{residual.norm.eps:.10f}")
    model = inliner.inline_local_functions(parser.parse_model(text))
    all_tensors = {**dict(stack.named_parameters()), **_constants(stack, n_positions), **tensors}
    used = {name for node in model.graph.node for name in node.input}
    for name in sorted(used & all_tensors.keys()):
        tensor = all_tensors[name]
        values = {name: tensor}
        if int8 and tensor.dim() == 2:
            values = dict(zip((name, f"{name}.scales"), quantized(tensor), strict=True))
        if tensor.dim() == 2 and name not in _TABLES:
            values[name] = values[name].T.contiguous()
        model.graph.initializer.extend(numpy_helper.from_array(value.numpy(), key) for key, value in values.items())
    return model


def _constants(stack: Encoder | Decoder, n_positions: int) -> dict[str, Tensor]:
    """Return the constants of a graph that are no parameters of the stack, or parts of one."""
    attention = stack.layers[0].attention
    d, h = attention.d_model, attention.n_heads
    constants = {
        "factor": torch.tensor(stack.embedding.scale),
        "places": stack.embedding.positions.first(n_positions),
        "scale": torch.tensor((d // h) ** -0.5),
        "shape_0": torch.tensor([0, 0, d]),  # 0: as it is
    }
    for n_parts in (1, 2, 3):
        constants[f"shape_{n_parts}"] = torch.tensor([0, 0, n_parts * h, d // h])
    for name, parameter in stack.named_parameters():
        of, dot, kind = name.rpartition(".in_")
        if dot and of.endswith("cross_attention"):
            constants |= {f"{of}.query.{kind}": parameter[:d], f"{of}.memory.{kind}": parameter[d:]}
    return constants


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a weight (N, K) as unsigned bytes around 128, and the scales (N,) of its rows."""
    scales = weight.abs().amax(1).clamp(min=1e-12) / 127
    return (weight / scales[:, None]).round().add(128).to(torch.uint8), scales
