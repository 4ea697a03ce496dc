"""Causal attention over several heads, token embeddings, and their gradients.

Queries, keys and values have one row per token (batch times sequence) and the heads side by side.
Letters of loops: b batch, h head, i query, j key, d number of a head.
"""

from __future__ import annotations

from emit import Body, Value, function


def _split(body: Body, x: Value, batch: int, heads: int) -> Value:
    """Rows of tokens as batch x sequence x head x number."""
    rows, width = x.shape
    return body.reshape(x, (batch, rows // batch, heads, width // heads))


def _turned(body: Body, x: Value) -> Value:
    """Batch x head x number x sequence: a loop over the sequence then walks along rows."""
    return body.transpose(x, (0, 2, 3, 1))


def _product(body: Body, order: str, a: tuple[Value, str], b: tuple[Value, str], out: str) -> Value:
    sizes = {x: n for value, letters in (a, b) for x, n in zip(letters, value.shape, strict=True)}
    start = body.filled(tuple(sizes[letter] for letter in out))
    return body.cast(body.contract(order, a, b, (start, out)), body.module.element)


def _rows(body: Body, x: Value) -> Value:
    batch, length, heads, size = x.shape
    return body.reshape(x, (batch * length, heads * size))


@function
def attention(
    body: Body, query: Value, key: Value, value: Value, *, batch: int, heads: int
) -> dict[str, Value]:
    """The mixed values, and the weights: softmax of query . key / sqrt(size) over the keys
    that do not come later than the query.
    """
    q, k, v = (_split(body, x, batch, heads) for x in (query, key, value))
    length, size = q.shape[1], q.shape[3]
    scores = _product(body, "bhidj", (q, "bihd"), (_turned(body, k), "bhdj"), "bhij")
    rows = (batch, heads, length)

    def seen(b: Body, number: Value, otherwise: float) -> Value:
        return b.where("ule", b.index(3), b.index(2), number, otherwise)

    top = body.generic(
        lambda b, s, m: b.maximum(m, seen(b, s, -1e30)), "bhij", [(scores, "bhij")],
        [(body.filled(rows, -1e30), "bhi")], "top",
    )[0]
    powers = body.generic(
        lambda b, s, m: seen(b, b.math("exp", (s - m) * size**-0.5), 0), "bhij",
        [(scores, "bhij"), (top, "bhi")],
        [(body.empty(scores.shape, body.module.total), "bhij")], "powers",
    )[0]
    sums = body.generic(
        lambda _, p, s: s + p, "bhij", [(powers, "bhij")], [(body.filled(rows), "bhi")], "sums"
    )[0]
    weights = body.generic(
        lambda _, p, s: p / s, "bhij", [(powers, "bhij"), (sums, "bhi")],
        [(body.empty(scores.shape, body.module.element), "bhij")], "weights",
    )[0]
    mixed = _product(body, "bhijd", (weights, "bhij"), (v, "bjhd"), "bihd")
    return {"mixed": _rows(body, mixed), "weights": weights}


@function
def attention_gradient(
    body: Body, query: Value, key: Value, value: Value, weights: Value, mixed_gradient: Value, *,
    batch: int, heads: int,
) -> dict[str, Value]:
    """The gradients of query, key and value."""
    tensors = (query, key, value, mixed_gradient)
    q, k, v, m = (_split(body, x, batch, heads) for x in tensors)
    size = q.shape[3]
    slopes = _product(body, "bhidj", (m, "bihd"), (_turned(body, v), "bhdj"), "bhij")
    along = body.generic(
        lambda _, w, g, s: s + w * g, "bhij", [(weights, "bhij"), (slopes, "bhij")],
        [(body.filled(weights.shape[:3]), "bhi")], "along",
    )[0]
    scores = body.generic(
        lambda _, w, g, s: w * (g - s) * size**-0.5, "bhij",
        [(weights, "bhij"), (slopes, "bhij"), (along, "bhi")],
        [(body.empty(weights.shape, body.module.element), "bhij")], "scores",
    )[0]
    by_score = (scores, "bhij")
    gradients = {
        "query": _product(body, "bhijd", by_score, (k, "bjhd"), "bihd"),
        "key": _product(body, "bhijd", by_score, (q, "bihd"), "bjhd"),
        "value": _product(body, "bhijd", (weights, "bhij"), (m, "bihd"), "bjhd"),
    }
    return {f"{name}_gradient": _rows(body, x) for name, x in gradients.items()}


# Embeddings


@function
def embedding(body: Body, tokens: Value, table: Value, places: Value) -> Value:
    """The row of the table for each token, plus that of its place. `tokens` is batch x sequence."""
    (batch, length), width = tokens.shape, table.shape[1]

    def formula(b: Body, token: Value, place: Value) -> Value:
        number = b.element_at(table, b.convert(token, "index"), b.index(2))
        return b.convert(number, place.element) + place

    into = body.empty((batch, length, width), table.element)
    x = body.generic(
        formula, "bsh", [(tokens, "bs"), (places, "sh")], [(into, "bsh")], "x"
    )[0]
    return body.reshape(x, (batch * length, width))


@function
def embedding_gradient(body: Body, tokens: Value, x_gradient: Value, sum: Value) -> Value:
    """Adds the row of each token to that of the table: a loop, since tokens may be equal."""
    rows, width = x_gradient.shape
    flat = body.reshape(tokens, (rows,))
    zero, one, end = (body.constant(number, "index") for number in (0, 1, rows))
    row, table = f"tensor<1x{width}x{x_gradient.element}>", f"tensor<1x{width}x{sum.element}>"
    result = Value(body, body.name("sums"), sum.element, sum.shape)
    body.emit(f"{result.name} = scf.for %row_number = {zero.name} to {end.name} step {one.name}")
    body.emit(f"    iter_args(%old = {sum.name}) -> ({sum.type}) {{")
    body.depth += 1
    t = Value(body, "%row_number", "index")
    place = body.convert(body.element_at(flat, t), "index")
    slices = []
    for source, at, kind in ((x_gradient.name, t, row), ("%old", place, table)):
        whole = x_gradient.type if kind is row and at is t else sum.type
        part = f"[{at.name}, 0] [1, {width}] [1, 1]"
        text = f"tensor.extract_slice {source}{part} : {whole} to {kind}"
        element = x_gradient.element if at is t else sum.element
        slices.append((body.value(text, element, (1, width), "row"), "th"))
    added = body.generic(lambda _, a, b: a + b, "th", slices, slices[1:], "added")[0]
    body.emit(
        f"%new = tensor.insert_slice {added.name} into %old[{place.name}, 0] [1, {width}] [1, 1]"
        f" : {table} into {sum.type}"
    )
    body.emit(f"scf.yield %new : {sum.type}")
    body.depth -= 1
    body.emit("}")
    return result


@function
def places_gradient(body: Body, x_gradient: Value, sum: Value) -> Value:
    """Adds the rows of each place in the sequence."""
    length, width = sum.shape
    rows = x_gradient.shape[0]
    x = body.reshape(x_gradient, (rows // length, length, width))
    return body.generic(lambda _, a, s: s + a, "bsh", [(x, "bsh")], [(sum, "sh")])[0]
