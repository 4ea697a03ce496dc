"""Causal attention over several heads, token embeddings, and their gradients.

Queries, keys and values have one row per token (batch times sequence) and the heads side by side.
Letters of loops: b batch, h head, i query, j key, d number of a head.

If a microbatch has several slices of its sequences, keys and values are from all slices, slice x
row x number, and queries are from one slice. A query sees no later key.
"""

from __future__ import annotations

from emit import Body, Value, function


def _split(body: Body, x: Value, batch: int, heads: int) -> Value:
    """Rows of tokens, of one slice or of all, as batch x sequence x head x number."""
    rows, width = x.shape[-2:]
    length = rows // batch
    if len(x.shape) == 3:
        slices = x.shape[0]
        by_slice = body.reshape(x, (slices, batch, length, width))
        turned = body.transpose(by_slice, (1, 0, 2, 3))
        length *= slices
        x = body.reshape(turned, (batch, length, width))
    return body.reshape(x, (batch, length, heads, width // heads))


def _rows_of_keys(body: Body, x: Value, shape: tuple[int, ...]) -> Value:
    """The inverse: `shape` is the shape of the keys."""
    if len(shape) == 2:
        return _rows(body, x)
    (slices, rows, width), batch = shape, x.shape[0]
    joined = body.reshape(x, (batch, x.shape[1], width))
    by_slice = body.reshape(joined, (batch, slices, rows // batch, width))
    return body.reshape(body.transpose(by_slice, (1, 0, 2, 3)), shape)


def _part(whole: Value, number: Value) -> tuple[str, str]:
    """The place of slice `number` in a tensor of all slices, and the type of one."""
    _, rows, width = whole.shape
    place = whole.body.convert(number, "index")
    at = f"[{place.name}, 0, 0] [1, {rows}, {width}] [1, 1, 1]"
    return at, f"tensor<{rows}x{width}x{whole.element}>"


def put_slice(body: Body, part: Value, whole: Value, number: Value) -> Value:
    """All slices, one of them new."""
    at, one = _part(whole, number)
    text = f"tensor.insert_slice {part.name} into {whole.name}{at} : {one} into {whole.type}"
    return body.value(text, whole.element, whole.shape, "slices")


def take_slice(body: Body, whole: Value, number: Value) -> Value:
    """One of all slices."""
    at, one = _part(whole, number)
    text = f"tensor.extract_slice {whole.name}{at} : {whole.type} to {one}"
    return body.value(text, whole.element, whole.shape[1:], "slice")


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
    body: Body, query: Value, key: Value, value: Value, slice: Value | None = None, *, batch: int,
    heads: int,
) -> dict[str, Value]:
    """The mixed values, and the weights: softmax of query . key / sqrt(size) over the keys
    that do not come later than the query. Queries are of slice number `slice`.
    """
    q, k, v = (_split(body, x, batch, heads) for x in (query, key, value))
    length, size = q.shape[1], q.shape[3]
    first = body.convert(slice, "index") * length if slice else None
    scores = _product(body, "bhidj", (q, "bihd"), (_turned(body, k), "bhdj"), "bhij")
    rows = (batch, heads, length)

    def seen(b: Body, number: Value, otherwise: float) -> Value:
        key_place, place = b.index(3), b.index(2)
        place = place + first if first else place
        return b.where("ule", key_place, place, number, otherwise)

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
    shapes = {"query": query.shape, "key": key.shape, "value": value.shape}
    return {
        f"{name}_gradient": _rows_of_keys(body, x, shapes[name]) for name, x in gradients.items()
    }


# Embeddings


@function
def embedding(body: Body, tokens: Value, table: Value, places: Value) -> Value:
    """The row of the table for each token, plus its place's. `tokens` is batch x sequence."""
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
    """Adds each token's row to its row of the table: a loop, since tokens may be equal."""
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


def _places_of_slice(table: Value, slice: Value, length: int) -> str:
    """The offset of the places of a slice in the table of all."""
    first = table.body.convert(slice, "index") * length
    return f"[{first.name}, 0] [{length}, {table.shape[1]}] [1, 1]"


def places_of(body: Body, places: Value, slice: Value | None, length: int) -> Value:
    """The rows of the places of a slice, or all."""
    if slice is None:
        return places
    shape = (length, places.shape[1])
    at = _places_of_slice(places, slice, length)
    text = f"tensor.extract_slice {places.name}{at} : {places.type}"
    kind = f"tensor<{shape[0]}x{shape[1]}x{places.element}>"
    return body.value(f"{text} to {kind}", places.element, shape, "places")


@function
def places_gradient(
    body: Body, x_gradient: Value, sum: Value, slice: Value | None = None, *, batch: int
) -> Value:
    """Adds the rows of each place in the sequence, or in a slice of it."""
    rows, width = x_gradient.shape
    length = rows // batch
    x = body.reshape(x_gradient, (batch, length, width))
    old = places_of(body, sum, slice, length)
    new = body.generic(lambda _, a, s: s + a, "bsh", [(x, "bsh")], [(old, "sh")])[0]
    if slice is None:
        return new
    at = _places_of_slice(sum, slice, length)
    text = f"tensor.insert_slice {new.name} into {sum.name}{at} : {new.type} into {sum.type}"
    return body.value(text, sum.element, sum.shape, "sums")
