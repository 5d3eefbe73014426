"""The encoder and the decoder of a model as ONNX graphs, with the inputs and outputs that transformers.js expects.

One graph decodes the first token and all others: it computes keys and values of the source for the positions that their
cache lacks, which are all at first and none later. So it needs neither branches nor a second copy of the weights.

In 8 bits, each row of a weight has a scale, and products are of integers, whose inputs are scaled in each product.
Weights are unsigned, since some processors overflow when they multiply signed by unsigned numbers.

Legend: B sentences, S source length, L new tokens, P tokens before them, D width, V vocabulary, H heads, E = D / H.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nmt.model.attention import MultiHeadAttention
from nmt.model.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, Transformer

# Graphs are written in ONNX's own syntax, https://onnx.ai/onnx/repo-docs/Syntax.html. In it, # stands for the number of
# a layer, and @ for that of the next one. Functions have all arguments that one of their variants needs.

if TYPE_CHECKING:
    import onnx

_OPERATORS = 'opset_import: ["" : 20, "nmt" : 1]'  # 20: the first version with Gelu

_ENCODER = """
zero = Constant <value = int64[1] {0}> ()
length = Shape <start = 1> (input_ids)
positions = nmt.range (zero, length)
x_0 = nmt.embed (input_ids, positions, table, table_scales, factor, places, places_scales)
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
x_0 = nmt.embed (input_ids, positions, table, table_scales, factor, places, places_scales)
earlier = nmt.range (zero, end)
rows = Unsqueeze (positions, one)
is_visible = LessOrEqual (earlier, rows)
bias = nmt.hide (is_visible)
source_bias = nmt.padding (encoder_attention_mask)
n_known = Shape <start = 2, end = 3> ("past_key_values.0.encoder.key")
new_source = Slice (encoder_hidden_states, n_known, end_of_source, one)
"""
_SELF_ATTENTION = """
in_1_# = nmt.before (x_#, norm_1_#_scale, norm_1_#_shift)
projected_# = nmt.linear (in_1_#, self_#, self_#_scales, self_#_bias)
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
attended_# = nmt.attend (queries_#, keys_#, values_#, bias, shape_0)
out_1_# = nmt.linear (attended_#, out_#, out_#_scales, out_#_bias)
y_# = nmt.after (x_#, out_1_#, norm_1_#_scale, norm_1_#_shift)
"""
_NO_CROSS_ATTENTION = """
z_# = Identity (y_#)
"""
_CROSS_ATTENTION = """
in_2_# = nmt.before (y_#, norm_2_#_scale, norm_2_#_shift)
asked_# = nmt.linear (in_2_#, query_#, query_#_scales, query_#_bias)
cross_queries_# = nmt.split (asked_#, shape_1)
source_# = nmt.linear (new_source, memory_#, memory_#_scales, memory_#_bias)
source_heads_# = nmt.split (source_#, shape_2)
new_source_keys_#, new_source_values_# = Split <axis = 1, num_outputs = 2> (source_heads_#)
source_keys_# = Concat <axis = 2> ("past_key_values.#.encoder.key", new_source_keys_#)
source_values_# = Concat <axis = 2> ("past_key_values.#.encoder.value", new_source_values_#)
"present.#.encoder.key" = Identity (source_keys_#)
"present.#.encoder.value" = Identity (source_values_#)
cross_attended_# = nmt.attend (cross_queries_#, source_keys_#, source_values_#, source_bias, shape_0)
out_2_# = nmt.linear (cross_attended_#, cross_#, cross_#_scales, cross_#_bias)
z_# = nmt.after (y_#, out_2_#, norm_2_#_scale, norm_2_#_shift)
"""
_FEED_FORWARD = """
in_3_# = nmt.before (z_#, norm_3_#_scale, norm_3_#_shift)
wide_# = nmt.linear (in_3_#, inner_#, inner_#_scales, inner_#_bias)
active_# = nmt.activate (wide_#)
out_3_# = nmt.linear (active_#, outer_#, outer_#_scales, outer_#_bias)
x_@ = nmt.after (z_#, out_3_#, norm_3_#_scale, norm_3_#_shift)
"""
_LAYERS = {
    Encoder: _SELF_ATTENTION + _NO_CACHE + _ATTENDED + _NO_CROSS_ATTENTION + _FEED_FORWARD,
    Decoder: _SELF_ATTENTION + _CACHE + _ATTENDED + _CROSS_ATTENTION + _FEED_FORWARD,
}
"""The text of a layer."""
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
    "attend (query, keys, values, bias, shape) => (x)": """
        columns = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (query, columns)
        scores = Add (products, bias)
        probs = Softmax <axis = -1> (scores)
        sums = MatMul (probs, values)
        heads = Transpose <perm = [0, 2, 1, 3]> (sums)
        x = Reshape (heads, shape)""",
    "linear (x, weight, scales, bias) => (y)": """
        products = nmt.multiply (x, weight, scales)
        y = Add (products, bias)""",
}
_NORM = {
    "pre": {
        "before (x, scale, shift) => (y)": "y = LayerNormalization <axis = -1, epsilon = EPSILON> (x, scale, shift)",
        "after (x, output, scale, shift) => (y)": "y = Add (x, output)",
    },
    "post": {
        "before (x, scale, shift) => (y)": "y = Identity (x)",
        "after (x, output, scale, shift) => (y)": """
            sum = Add (x, output)
            y = LayerNormalization <axis = -1, epsilon = EPSILON> (sum, scale, shift)""",
    },
}
_PRODUCTS = {
    False: {
        "gather (ids, table, scales) => (rows)": "rows = Gather (table, ids)",
        "multiply (x, weight, scales) => (y)": "y = MatMul (x, weight)",
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
        "multiply (x, weight, scales) => (y)": """
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
    table = stack.embedding.weight
    inputs = "int64[batch_size, source] input_ids, int64[batch_size, source] attention_mask"
    output = f"float[batch_size, source, {table.size(1)}] last_hidden_state"
    body = f"{_ENCODER}{_layers(stack)}last_hidden_state = Identity (hidden)"
    tensors = {"table": table[rows], **dict(_tensors(stack, n_positions))}
    return _model(stack, f"nmt ({inputs}) => ({output}) {{{body}}}", tensors, int8)


def decoder_graph(model: Transformer, n_positions: int, int8: bool) -> onnx.ModelProto:
    """Return a model that decodes L tokens after P others.

    It maps input_ids (B, L) int64, encoder_hidden_states (B, S, D) float32, encoder_attention_mask (B, S) int64 and
    past_key_values.N.decoder.key (B, H, P, E), the same of values and of the encoder, to logits (B, L, V) float32 and
    present.N.decoder.key and so on, which are the next past_key_values. n_positions: maximum of P + L.
    """
    stack = model.decoder
    table = stack.embedding.weight
    n_heads = stack.layers[0].attention.n_heads
    memory = f"float[batch_size, source, {table.size(1)}] encoder_hidden_states"
    inputs = ["int64[batch_size, length] input_ids", memory, "int64[batch_size, source] encoder_attention_mask"]
    outputs = [f"float[batch_size, length, {len(model.output_weight)}] logits"]
    for number, side, part in product(range(len(stack.layers)), ("decoder", "encoder"), ("key", "value")):
        for when, names in (("past_key_values", inputs), ("present", outputs)):
            shape = f"batch_size, {n_heads}, {when}_{side}, {table.size(1) // n_heads}"
            names.append(f'float[{shape}] "{when}.{number}.{side}.{part}"')
    tensors = {"table": table, **dict(_tensors(stack, n_positions))}
    name = "table"
    if model.output is not None:
        name = "output"
        tensors[name] = model.output
    # runtimes transpose the table once, when they load the model
    output = f"columns = Transpose <perm = [1, 0]> ({name}) products = nmt.multiply (hidden, columns, {name}_scales) "
    if model.output_bias is None:
        output += "logits = Identity (products)"
    else:
        output += "logits = Add (products, output_bias)"
        tensors["output_bias"] = model.output_bias
    graph = f"nmt ({', '.join(inputs)}) => ({', '.join(outputs)}) {{{_DECODER}{_layers(stack)}{output}}}"
    return _model(stack, graph, tensors, int8)


def _layers(stack: Encoder | Decoder) -> str:
    """Return the text of the layers and the last norm."""
    text = _LAYERS[type(stack)]
    n = len(stack.layers)
    parts = [text.replace("#", str(i)).replace("@", str(i + 1)) for i in range(n)]
    is_normed = isinstance(stack.norm, nn.LayerNorm)
    norm = f"nmt.before (x_{n}, norm_scale, norm_shift)" if is_normed else f"Identity (x_{n})"
    return "".join([*parts, f"hidden = {norm}\n"])


def _tensors(stack: Encoder | Decoder, n_positions: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights and other constants of a graph by name, except the embedding table and the output layer."""
    embedding = stack.embedding
    yield "factor", torch.tensor(embedding.scale)
    yield "places", embedding.positions.first(n_positions)
    attention = stack.layers[0].attention
    d, h = attention.d_model, attention.n_heads
    yield "shape_0", torch.tensor([0, 0, d])  # 0: as it is
    for n_parts in (1, 2, 3):
        yield f"shape_{n_parts}", torch.tensor([0, 0, n_parts * h, d // h])
    norms: dict[str, nn.Module] = {"norm": stack.norm}
    linears = dict[str, tuple[Tensor, Tensor]]()
    layers: Sequence[EncoderLayer | DecoderLayer] = stack.layers
    for i, layer in enumerate(layers):
        linears |= {f"self_{i}": _scaled(layer.attention), f"out_{i}": _parts(layer.attention.output)}
        linears |= {f"inner_{i}": _parts(layer.feed_forward.inner), f"outer_{i}": _parts(layer.feed_forward.outer)}
        norms |= {f"norm_1_{i}": layer.attention_residual.norm, f"norm_3_{i}": layer.feed_forward_residual.norm}
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            assert cross is not None, "a translator attends to its source"
            weight, bias = _scaled(cross)
            linears |= {f"query_{i}": (weight[:d], bias[:d]), f"memory_{i}": (weight[d:], bias[d:])}
            linears[f"cross_{i}"] = _parts(cross.output)
            norms[f"norm_2_{i}"] = layer.cross_attention_residual.norm
    for name, norm in norms.items():
        if isinstance(norm, nn.LayerNorm):
            yield from ((f"{name}_scale", norm.weight), (f"{name}_shift", norm.bias))
    for name, (weight, bias) in linears.items():
        yield from ((name, weight), (f"{name}_bias", bias))


def _parts(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    return linear.weight, linear.bias


def _scaled(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Return the weight and the bias of query, key and value, with scores scaled in the query."""
    d = attention.d_model
    factors = torch.ones(3 * d)
    factors[:d] = (d // attention.n_heads) ** -0.5
    return attention.in_weight * factors[:, None], attention.in_bias * factors


def _model(stack: Encoder | Decoder, graph: str, tensors: Mapping[str, Tensor], int8: bool) -> onnx.ModelProto:
    """Return a model of the text of a graph and of its constants by name, without gradients."""
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
    constants = model.graph.initializer
    used = {name for node in model.graph.node for name in node.input}
    for name in sorted(used & tensors.keys()):
        tensor = tensors[name]
        is_matrix = tensor.dim() == 2
        if is_matrix and int8:
            tensor, scales = quantized(tensor)
            constants.append(numpy_helper.from_array(scales.numpy(), f"{name}_scales"))
        if is_matrix and name not in ("table", "places", "output"):  # of which rows are read
            tensor = tensor.T.contiguous()
        constants.append(numpy_helper.from_array(tensor.numpy(), name))
    return model


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a weight (N, K) as unsigned bytes around 128, and the scales (N,) of its rows."""
    scales = weight.abs().amax(1).clamp(min=1e-12) / 127
    return (weight / scales[:, None]).round().add(128).to(torch.uint8), scales
