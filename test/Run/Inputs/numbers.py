# usage: numbers.py FOLDER PIPESCHED_RUN: the results of compiled functions for numbers, NaN and
# zeros among them, next to Python's `math` in double precision. The model steps its parameters by
# one function each, and the tool saves them.
import math
import pathlib
import struct
import subprocess
import sys

NAN, INF = math.nan, math.inf
# Bits after the leading one, the least exponent, the largest number, the code of struct.
TYPES = {"f16": (10, -14, 65504.0, "e"), "bf16": (7, -126, 2.0**128 - 2.0**120, "H"),
         "f32": (23, -126, 2.0**128 - 2.0**104, "f"), "f64": (52, -1022, sys.float_info.max, "d")}
ONE = [0.0, -0.0, 1e-9, -1e-9, 3e-4, -3e-4, 0.3, -0.7, 1.0, -1.0, 2.5, -3.5, 9.0, -20.0, INF, -INF,
       NAN]
PAIRS = [(1.0, NAN), (NAN, 1.0), (NAN, NAN), (0.0, 2.0), (-3.0, 2.0), (7.5, -2.0), (-0.0, 3.0),
         (INF, 1.0), (0.5, INF), (2.0, 2.0), (0.0, -2.0), (-0.0, -3.0)]


def limited(function):
    """Python raises errors where IEEE 754 has NaN and infinities."""
    def run(*numbers):
        try:
            return function(*numbers)
        except ValueError:
            return NAN
        except OverflowError:
            return INF
    return run


def at_poles(function, poles):
    return lambda x: poles[x] if x in poles else limited(function)(x)


def away(x):
    return x if not math.isfinite(x) else math.copysign(math.floor(abs(x) + 0.5), x)


def whole(function):
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def power(x, n):
    if x == 0 and n < 0:
        return math.copysign(INF, x) if n % 2 else INF
    return limited(math.pow)(x, n)


def largest(a, b):
    return NAN if math.isnan(a) or math.isnan(b) else max(a, b)


def least(a, b):
    return NAN if math.isnan(a) or math.isnan(b) else min(a, b)


FUNCTIONS = {
    "absf": abs, "acos": math.acos, "asin": math.asin, "asinh": math.asinh, "atan": math.atan,
    "ceil": whole(math.ceil), "cos": math.cos, "cosh": math.cosh, "erf": math.erf,
    "erfc": math.erfc, "exp": math.exp, "exp2": lambda x: math.pow(2, x), "expm1": math.expm1,
    "floor": whole(math.floor), "log": at_poles(math.log, {0.0: -INF}),
    "log10": at_poles(math.log10, {0.0: -INF}), "log2": at_poles(math.log2, {0.0: -INF}),
    "log1p": at_poles(math.log1p, {-1.0: -INF}), "round": away, "roundeven": whole(round),
    "sin": math.sin, "sinh": lambda x: math.copysign(limited(math.sinh)(abs(x)), x),
    "sqrt": math.sqrt, "tan": math.tan, "tanh": math.tanh, "trunc": whole(math.trunc),
    "atanh": at_poles(math.atanh, {1.0: INF, -1.0: -INF}), "acosh": math.acosh,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "rsqrt": lambda x: math.copysign(INF, x) if x == 0 else 1 / math.sqrt(x)}
COMPARED = {"oeq": lambda a, b: a == b, "une": lambda a, b: a != b, "olt": lambda a, b: a < b,
            "oge": lambda a, b: a >= b, "ult": lambda a, b: not a >= b}


def rounded(number, kind):
    """The nearest number of a type, ties to even."""
    bits, least_exponent, limit, _ = TYPES[kind]
    if number == 0 or not math.isfinite(number):
        return number
    unit = 2.0 ** (max(math.frexp(number)[1] - 1, least_exponent) - bits)
    if unit == 0:  # below the least exponent of a double
        return number
    near = round(number / unit) * unit if kind != "f64" else number
    return math.copysign(INF if abs(near) > limit else abs(near), number)


def packed(numbers, kind):
    if kind == "bf16":
        return b"".join(struct.pack("<f", rounded(each, kind))[2:] for each in numbers)
    return struct.pack(f"<{len(numbers)}{TYPES[kind][3]}", *(rounded(x, kind) for x in numbers))


def unpacked(data, kind):
    if kind == "bf16":
        data, kind = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)), "f32"
    code = TYPES[kind][3]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def is_near(found, wanted, kind, units):
    if math.isnan(wanted) or math.isnan(found):
        return math.isnan(wanted) and math.isnan(found)
    if found == wanted:
        return wanted != 0 or math.copysign(1, found) == math.copysign(1, wanted)
    bits, exponent = TYPES[kind][:2]
    unit = 2.0 ** (max(math.frexp(wanted)[1] - 1, exponent) - bits)
    return math.isfinite(found) and abs(found - wanted) <= units * unit


def cases(kind):
    """Name, inputs, body of an element in terms of %a, wanted results, and tolerance in units."""
    for op, function in FUNCTIONS.items():
        yield op, ONE, f"%r = math.{op} %a : {kind}", limited(function), 4
    for n in range(-3, 4):
        yield f"x**{n}", ONE, f"%n = arith.constant {n} : i64\n" \
            f"%r = math.fpowi %a, %n : {kind}, i64", (lambda x, n=n: power(x, n)), 4
    yield "clamp", ONE, f"%l = arith.constant -1.0 : {kind}\n%h = arith.constant 2.0 : {kind}\n" \
        f"%r = math.clampf %a to [%l, %h] : {kind}", lambda x: least(largest(x, -1.0), 2.0), 0
    yield "x == x", ONE, f"%s = arith.cmpf oeq, %a, %a : {kind}\n" \
        f"%r = arith.uitofp %s : i1 to {kind}", lambda x: float(x == x), 0


def binary_cases(kind):
    for op, function in {"maximumf": largest, "minimumf": least, "remf": math.fmod}.items():
        yield op, f"%r = arith.{op} %a, %b : {kind}", limited(function)
    yield "powf", f"%r = math.powf %a, %b : {kind}", lambda a, b: power(a, b)
    for name, function in COMPARED.items():
        yield name, f"%s = arith.cmpf {name}, %a, %b : {kind}\n" \
            f"%r = arith.uitofp %s : i1 to {kind}", \
            lambda a, b, function=function: float(function(a, b))


def generic(body, kind, count, inputs):
    names = ["%x"] if inputs == 1 else ["%x", "%y"]
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (inputs + 1))
    arguments = ", ".join(f"%{name}: {kind}" for name in "ab"[:inputs])
    kinds = ", ".join([f"tensor<{count}x{kind}>"] * inputs)
    return f"""  %e = tensor.empty() : tensor<{count}x{kind}>
  %z = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({", ".join(names)} : {kinds}) outs(%e : tensor<{count}x{kind}>) {{
  ^bb0({arguments}, %out: {kind}):
    {body}
    linalg.yield %r : {kind}
  }} -> tensor<{count}x{kind}>"""


class Model:
    """The functions of a type of numbers, each with its parameters."""

    def __init__(self, kind):
        self.kind, self.functions, self.made, self.calls = kind, [], [], []
        self.params, self.wanted = [], []

    def add(self, name, inputs, body, wanted, units):
        """Makes the first of some parameters `body`, which computes %z, of all of them."""
        kind, number = self.kind, len(self.wanted)
        kinds = [f"tensor<{len(each)}x{kind}>" for each in inputs]
        names = [f"p{number}{letter}" for letter in "xy"[:len(inputs)]]
        for each, data, type_ in zip(names, inputs, kinds):
            self.params.append((each, type_))
            self.made.append(f'  %{each} = arith.constant dense<"0x{packed(data, kind).hex()}"> : '
                             f"{type_}")
        arguments = ", ".join(f"%{letter}: {type_}" for letter, type_ in zip("xy", kinds))
        self.functions.append(f"func.func private @f{number}({arguments}) -> {kinds[0]} {{\n"
                              f"{body}\n  return %z : {kinds[0]}\n}}")
        self.calls.append(f"  %r{number} = call @f{number}({', '.join('%' + n for n in names)}) : "
                          f"({', '.join(kinds)}) -> {kinds[0]}")
        self.wanted.append((name, names[0], wanted, units))

    def text(self):
        shown = [f'{type_} {{pipe.param = "{name}"}}' for name, type_ in self.params]
        stepped = [(f"%r{i}", dict(self.params)[name], name)
                   for i, (_, name, _, _) in enumerate(self.wanted)]
        return "\n".join([*self.functions, f"func.func @init() -> ({', '.join(shown)}) {{",
                          *self.made, "  return " + ", ".join(f"%{name}" for name, _ in self.params)
                          + " : " + ", ".join(type_ for _, type_ in self.params) + "\n}",
                          "func.func @update(" + ", ".join(
                              f"%{name}: {text}" for (name, _), text in zip(self.params, shown)) +
                          ") -> (" + ", ".join(f'{type_} {{pipe.param = "{name}"}}'
                                               for _, type_, name in stepped) + ") {", *self.calls,
                          "  return " + ", ".join(value for value, _, _ in stepped) + " : " +
                          ", ".join(type_ for _, type_, _ in stepped) + "\n}", REST])


REST = """
func.func @data() -> (tensor<f32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<f32>
  return %x : tensor<f32>
}
func.func @forward(%x: tensor<f32> {pipe.input}) -> (tensor<f32> {pipe.output}) {
  return %x : tensor<f32>
}
func.func @backward(%dy: tensor<f32> {pipe.output_gradient})
    -> (tensor<f32> {pipe.input_gradient}) {
  return %dy : tensor<f32>
}
func.func @loss(%y: tensor<f32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<f32> {pipe.output_gradient}) {
  return %y, %y : tensor<f32>, tensor<f32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 init @init forward @forward backward @backward update @update
  data @data
  loss @loss
}
"""


def add_sums(model):
    """A column of 1000 numbers; a sum in a narrow type loses most of them."""
    kind = model.kind
    row = [rounded(1 + i % 7 / 8, kind) for i in range(1000)]
    for op, wanted in (("addf", math.fsum(row)), ("square", math.fsum(x * x for x in row))):
        square = f"%t = arith.mulf %a, %a : {kind}\n" if op == "square" else ""
        term = "%t" if square else "%a"
        body = f"""  %zero = arith.constant dense<0.0> : tensor<1x{kind}>
  %m = tensor.expand_shape %x [[0, 1]] output_shape [1000, 1]
      : tensor<1000x{kind}> into tensor<1000x1x{kind}>
  %s = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}}
      ins(%m : tensor<1000x1x{kind}>) outs(%zero : tensor<1x{kind}>) {{
  ^bb0(%a: {kind}, %o: {kind}):
    {square}%n = arith.addf %o, {term} : {kind}
    linalg.yield %n : {kind}
  }} -> tensor<1x{kind}>
  %z = tensor.insert_slice %s into %x[0] [1] [1] : tensor<1x{kind}> into tensor<1000x{kind}>"""
        model.add(f"{op} sum", [row], body, [wanted], 1)


def model_of(kind):
    model = Model(kind)
    numbers = [rounded(x, kind) for x in ONE]
    for name, _, body, function, units in cases(kind):
        model.add(name, [ONE], generic(body, kind, len(ONE), 1), [function(x) for x in numbers],
                  units)
    for name, body, function in binary_cases(kind):
        first, second = [a for a, _ in PAIRS], [b for _, b in PAIRS]
        model.add(name, [first, second], generic(body, kind, len(PAIRS), 2),
                  [function(a, b) for a, b in PAIRS], 4)
    add_sums(model)
    return model


def narrowing():
    """f64 to bf16 and f16, of numbers that two roundings would round otherwise."""
    model = Model("f64")
    numbers = [*ONE, 1e300, -1e-300, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40,
               1 + 2.0**-11 + 2.0**-40, -(1 + 3 * 2.0**-8) + 2.0**-45, 3.3895e38, 65519.99]
    for kind in ("bf16", "f16", "f32"):
        body = f"%s = arith.truncf %a : f64 to {kind}\n%r = arith.extf %s : {kind} to f64"
        model.add(f"f64 to {kind}", [numbers], generic(body, "f64", len(numbers), 1),
                  [rounded(x, kind) for x in numbers], 0)
    return model


def check(name, model, folder, tool):
    source = folder / f"{name}.mlir"
    source.write_text(model.text())
    saved = folder / name
    ran = subprocess.run([tool, source, "--schedule=gpipe", "--steps=1",
                          f"--save-parameters={saved}"], capture_output=True, text=True)
    if ran.returncode != 0:
        print(f"{name}: status {ran.returncode}: {ran.stderr[:1000]}")
        return 1
    faults = 0
    for what, param, wanted, units in model.wanted:
        data = (saved / f"stage0.{param}.npy").read_bytes()
        begin = 10 + struct.unpack("<H", data[8:10])[0]
        for number, (found, want) in enumerate(zip(unpacked(data[begin:], model.kind), wanted)):
            if not is_near(found, rounded(want, model.kind), model.kind, units):
                faults += 1
                print(f"{name} {what}, number {number}: {found}, wanted {want}")
    print(f"{name}: {len(model.wanted)} functions, {faults} faults")
    return faults


def main():
    folder, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    models = {kind: model_of(kind) for kind in TYPES} | {"narrowing": narrowing()}
    return 1 if sum(check(name, model, folder, tool) for name, model in models.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
