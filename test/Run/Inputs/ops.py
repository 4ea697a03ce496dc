# usage: ops.py FOLDER PIPESCHED_RUN: each op whose work is counted
# (lib/Stages/FunctionWork.cpp) is compiled and gives the reference's result, or is refused by name,
# with its function and stage.
import pathlib
import subprocess
import sys

# Operands %a, %b, %c of a type, and the ops that give %r; one line for each op of arith and math.
# `>` is before another type of the result.
FLOAT = ("arith: addf divf maximumf maxnumf minimumf minnumf mulf remf subf "
         "math: atan2 copysign powf")
FLOAT_ONE = ("arith: negf math: absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf "
             "erfc exp exp2 expm1 floor log log10 log1p log2 round roundeven rsqrt sin sinh sqrt "
             "tan tanh trunc")
INTEGER = ("arith: addi andi ceildivsi ceildivui divsi divui floordivsi maxsi maxui minsi minui "
           "muli ori remsi remui shli shrsi shrui subi xori math: ipowi")
INTEGER_ONE = "math: absi ctlz ctpop cttz"
CASTS = [("bitcast", "f32", "i32"), ("truncf", "f64", "f16"),
         ("extf", "f16", "f64"), ("extf", "f32", "f64"),
         ("extsi", "i32", "i64"),
         ("extui", "i32", "i64"), ("fptosi", "f32", "i32"), ("fptoui", "f32", "i32"),
         ("index_cast", "i32", "index"), ("index_castui", "i32", "index"),
         ("sitofp", "i32", "f32"), ("truncf", "f32", "bf16"), ("trunci", "i32", "i8"),
         ("uitofp", "i32", "f32")]


def names(text):
    dialect = ""
    for word in text.split():
        if word.endswith(":"):
            dialect = word[:-1]
        else:
            yield f"{dialect}.{word}"


def scalars():
    """Name, body in terms of %a: TYPE, type of the operands and of the result."""
    for kind in ("f32", "f64", "f16", "bf16"):
        for op in names(FLOAT):
            yield op, f"%r = {op} %a, %b : {kind}", kind, kind
        for op in names(FLOAT_ONE):
            yield op, f"%r = {op} %a : {kind}", kind, kind
        yield "math.fma", f"%r = math.fma %a, %b, %c : {kind}", kind, kind
        yield "math.clampf", f"%r = math.clampf %a to [%b, %c] : {kind}", kind, kind
        yield "math.fpowi", f"%i = arith.constant 3 : i32\n%r = math.fpowi %a, %i : {kind}, i32", \
            kind, kind
        yield "math.sincos", f"%r, %s = math.sincos %a : {kind}", kind, kind
        for op in ("isfinite", "isinf", "isnan", "isnormal"):
            yield f"math.{op}", f"%r = math.{op} %a : {kind}", kind, "i1"
        yield "arith.cmpf", f"%r = arith.cmpf olt, %a, %b : {kind}", kind, "i1"
        yield "arith.select", f"%s = arith.cmpf olt, %a, %b : {kind}\n" \
            f"%r = arith.select %s, %a, %b : {kind}", kind, kind
        yield "arith.constant", f"%r = arith.constant 2.0 : {kind}", kind, kind
    for kind in ("i32", "i64", "i8"):
        for op in names(INTEGER):
            yield op, f"%r = {op} %a, %b : {kind}", kind, kind
        for op in names(INTEGER_ONE):
            yield op, f"%r = {op} %a : {kind}", kind, kind
        yield "arith.cmpi", f"%r = arith.cmpi slt, %a, %b : {kind}", kind, "i1"
        for op in ("mulsi_extended", "mului_extended"):
            yield f"arith.{op}", f"%s, %r = arith.{op} %a, %b : {kind}", kind, kind
        yield "arith.addui_extended", f"%r, %s = arith.addui_extended %a, %b : {kind}, i1", \
            kind, kind
    for op, kind, result in CASTS:
        yield f"arith.{op}", f"%r = arith.{op} %a : {kind} to {result}", kind, result
    yield "arith.scaling_extf", "%s = arith.constant 1.0 : f8E8M0FNU\n%n = arith.truncf %a : " \
        "f32 to f8E5M2\n%r = arith.scaling_extf %n, %s : f8E5M2, f8E8M0FNU to f32", "f32", "f32"
    yield "arith.scaling_truncf", "%s = arith.constant 1.0 : f8E8M0FNU\n%n = " \
        "arith.scaling_truncf %a, %s : f32, f8E8M0FNU to f8E5M2\n" \
        "%r = arith.extf %n : f8E5M2 to f32", "f32", "f32"


def to_f32(kind, name, result):
    """Text that makes the f32 %result of %name."""
    if kind == "f32":
        return f"%zero{result} = arith.constant 0.0 : f32\n" \
            f"%{result} = arith.addf %{name}, %zero{result} : f32"
    if kind == "f64":
        return f"%{result} = arith.truncf %{name} : f64 to f32"
    if kind in ("f16", "bf16"):
        return f"%{result} = arith.extf %{name} : {kind} to f32"
    if kind == "index":
        return f"%cast{result} = arith.index_cast %{name} : index to i64\n" \
            f"%{result} = arith.sitofp %cast{result} : i64 to f32"
    return f"%{result} = arith.{'ui' if kind == 'i1' else 'si'}tofp %{name} : {kind} to f32"


def from_f32(kind, name, result):
    if kind == "f32":
        return f"%zero{result} = arith.constant 0.0 : f32\n" \
            f"%{result} = arith.addf %{name}, %zero{result} : f32"
    if kind == "f64":
        return f"%{result} = arith.extf %{name} : f32 to f64"
    if kind in ("f16", "bf16"):
        return f"%{result} = arith.truncf %{name} : f32 to {kind}"
    return f"%{result} = arith.fptosi %{name} : f32 to {kind}"


GENERIC = """
  %e = tensor.empty() : tensor<2x6xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x : tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) {{
  ^bb0(%p: f32, %q: f32):
    {text}
    linalg.yield %o : f32
  }} -> tensor<2x6xf32>"""
# Bodies that make %y, tensor<2x6xf32>, of %x; %e is empty, %f zero.
X, E = "tensor<2x6xf32>", "%e = tensor.empty() : tensor<2x6xf32>\n"
F = E + "%z = arith.constant 0.0 : f32\n" \
    f"%f = linalg.fill ins(%z : f32) outs(%e : {X}) -> {X}\n"
I1 = "%i = arith.constant dense<[[1], [0]]> : tensor<2x1xindex>\n"
TENSORS = {
    "tensor.empty": F + f"%y = linalg.add ins(%x, %f : {X}, {X}) outs(%e : {X}) -> {X}",
    "tensor.cast": f"%d = tensor.cast %x : {X} to tensor<?x6xf32>\n"
                   f"%y = tensor.cast %d : tensor<?x6xf32> to {X}",
    "tensor.bitcast": f"%d = tensor.bitcast %x : {X} to tensor<2x6xi32>\n"
                      f"%y = tensor.bitcast %d : tensor<2x6xi32> to {X}",
    "tensor.dim": "%c1 = arith.constant 1 : index\n%d = tensor.dim %x, %c1 : " + X +
                  "\n%i = arith.index_cast %d : index to i32\n%s = arith.sitofp %i : i32 to f32\n"
                  f"%y = tensor.splat %s : {X}",
    "tensor.rank": f"%d = tensor.rank %x : {X}\n%i = arith.index_cast %d : index to i32\n"
                   f"%s = arith.sitofp %i : i32 to f32\n%y = tensor.splat %s : {X}",
    "tensor.reshape": "%s = arith.constant dense<[6, 2]> : tensor<2xindex>\n"
                      f"%d = tensor.reshape %x(%s) : ({X}, tensor<2xindex>) -> tensor<6x2xf32>\n" +
                      E + f"%y = linalg.transpose ins(%d : tensor<6x2xf32>) outs(%e : {X}) "
                      "permutation = [1, 0]",
    "tensor.expand_shape": "%d = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 2] : "
                           f"{X} into tensor<2x3x2xf32>\n%y = tensor.collapse_shape %d "
                           f"[[0], [1, 2]] : tensor<2x3x2xf32> into {X}",
    "tensor.extract_slice": f"%d = tensor.extract_slice %x[0, 1] [2, 3] [1, 2] : {X} to "
                            "tensor<2x3xf32>\n%y = tensor.insert_slice %d into %x[0, 3] [2, 3] "
                            f"[1, 1] : tensor<2x3xf32> into {X}",
    "tensor.extract": "%c1 = arith.constant 1 : index\n"
                      f"%s = tensor.extract %x[%c1, %c1] : {X}\n"
                      f"%y = tensor.insert %s into %x[%c1, %c1] : {X}",
    "tensor.from_elements": f"%c1 = arith.constant 1 : index\n%s = tensor.extract %x[%c1, %c1] : "
                            f"{X}\n%y = tensor.from_elements " + ", ".join(["%s"] * 12) + f" : {X}",
    "tensor.concat": f"%d = tensor.extract_slice %x[0, 1] [2, 3] [1, 1] : {X} to tensor<2x3xf32>\n"
                     "%y = tensor.concat dim(1) %d, %d : "
                     f"(tensor<2x3xf32>, tensor<2x3xf32>) -> {X}",
    "tensor.gather": I1 + f"%y = tensor.gather %x[%i] gather_dims([0]) : ({X}, "
                     f"tensor<2x1xindex>) -> {X}",
    "tensor.scatter": I1 + f"%y = tensor.scatter %x into %x[%i] scatter_dims([0]) unique : ({X}, "
                      f"{X}, tensor<2x1xindex>) -> {X}",
    "tensor.pad": f"%d = tensor.extract_slice %x[0, 1] [2, 3] [1, 1] : {X} to tensor<2x3xf32>\n"
                  "%z = arith.constant 1.0 : f32\n%y = tensor.pad %d low[0, 1] high[0, 2] {\n"
                  "^bb0(%i: index, %j: index):\ntensor.yield %z : f32\n} : tensor<2x3xf32> to " + X,
    "tensor.generate": "%y = tensor.generate {\n^bb0(%i: index, %j: index):\n"
                       f"%s = tensor.extract %x[%i, %j] : {X}\ntensor.yield %s : f32\n}} : {X}",
    "linalg.softmax": E + f"%y = linalg.softmax dimension(1) ins(%x : {X}) outs(%e : {X}) -> {X}",
    "linalg.pack": "%e = tensor.empty() : tensor<2x3x2xf32>\n"
                   f"%d = linalg.pack %x inner_dims_pos = [1] inner_tiles = [2] into %e : {X} -> "
                   "tensor<2x3x2xf32>\n"
                   f"%y = tensor.collapse_shape %d [[0], [1, 2]] : tensor<2x3x2xf32> into {X}",
    "linalg.unpack": "%d = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 2] : "
                     f"{X} into tensor<2x3x2xf32>\n" + E +
                     "%y = linalg.unpack %d inner_dims_pos = [1] inner_tiles = [2] into %e : "
                     f"tensor<2x3x2xf32> -> {X}",
    "complex": GENERIC.format(text="%s = complex.create %p, %p : complex<f32>\n"
                                   "%o = complex.re %s : complex<f32>"),
    "vector": "%s = arith.constant dense<1.0> : vector<4xf32>\n"
              f"%t = arith.addf %s, %s : vector<4xf32>\n%y = arith.negf %x : {X}",
}
MODEL = """
pipe.schedule @p workers 1 microbatches 2 {{
  path on [0]
  stage 0 forward @forward backward @backward
  data @data
  loss @loss
}}
func.func @forward(%x: tensor<2x6xf32> {{pipe.input}}) -> (tensor<2x6xf32> {{pipe.output}}) {{
  {body}
  return %y : tensor<2x6xf32>
}}
func.func @backward(%dy: tensor<2x6xf32> {{pipe.output_gradient}})
    -> (tensor<2x6xf32> {{pipe.input_gradient}}) {{
  return %dy : tensor<2x6xf32>
}}
func.func @data() -> (tensor<2x6xf32> {{pipe.input}}) {{
  %x = arith.constant dense<[[0.5, 0.25, 0.75, 1.0, 1.0, 0.125], [1.0, 0.5, 0.5, 0.25, 0.75, 1.0]]>
      : tensor<2x6xf32>
  return %x : tensor<2x6xf32>
}}
func.func @loss(%y: tensor<2x6xf32> {{pipe.output}})
    -> (tensor<f32> {{pipe.loss}}, tensor<2x6xf32> {{pipe.output_gradient}}) {{
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce {{ arith.addf }} ins(%y : tensor<2x6xf32>) outs(%zero : tensor<f32>)
      dimensions = [0, 1]
  return %sum, %y : tensor<f32>, tensor<2x6xf32>
}}
"""


def cases():
    for op, body, kind, result in scalars():
        one = "%one = arith.constant 1.0 : f32\n%p1 = arith.addf %p, %one : f32\n"
        use = "p1" if op.endswith(("acosh",)) or kind.startswith("i") else "p"
        text = one + "\n".join([from_f32(kind, use, name) for name in "abc"] +
                               [body, to_f32(result, "r", "o")])
        yield f"{op} {kind}", op, GENERIC.format(text=text)
    for op, body in TENSORS.items():
        yield op, op, body


def main():
    folder, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    compiled, refused, wrong = 0, set(), 0
    for name, op, body in cases():
        source = folder / (name.replace(" ", "_") + ".mlir")
        source.write_text(MODEL.format(body=body))
        ran = subprocess.run([tool, source, "--schedule=gpipe", "--steps=1", "--check",
                              "--no-update"], capture_output=True, text=True)
        if ran.returncode == 0 and "check: passed" in ran.stdout:
            compiled += 1
        elif ran.returncode == 1 and "in function 'forward' (F of stage 0)" in ran.stderr and \
                "cannot be compiled" in ran.stderr:
            refused.add(op)
        else:
            wrong += 1
            print(f"{name}: status {ran.returncode}\n{ran.stdout[-300:]}{ran.stderr[:600]}")
    print(f"{compiled} compiled, {wrong} faults; refused: {' '.join(sorted(refused))}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
