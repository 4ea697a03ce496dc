# usage: checks.py FOLDER PIPESCHED_RUN [OPTION..]: runs functions that take
# operands from the data. Microbatch m gives x = [m, m + 1, m + 2, m + 3], which all of them
# take until 2; with microbatch 3 each must end with the error alongside it.
import pathlib
import subprocess
import sys

INDEX = "dimension 0: index 6, expected 0 to 5"
TAKE = "%{name} = tensor.extract %x[%c{place}] : tensor<4xi64>\n"
NUMBER = "%i64 = tensor.extract %x[%c3] : tensor<4xi64>\n" \
         "%i = arith.index_cast %i64 : i64 to index\n"
SIX = "%six = arith.constant dense<[7, 8, 9, 10, 11, 12]> : tensor<6xi64>\n"
SPREAD = "%e = tensor.empty() : tensor<4xi64>\n" \
         "%y = linalg.fill ins(%r : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>\n"
ZERO = "%least = arith.constant {least} : i64\n%three = arith.constant 3 : i64\n" \
       "%i64 = tensor.extract %x[%c0] : tensor<4xi64>\n" \
       "%d = arith.subi %i64, %three : i64\n"

# name: body, which makes %y of %x; op and text of its error
KINDS = {
    "extract": (SIX + NUMBER + "%r = tensor.extract %six[%i] : tensor<6xi64>\n" + SPREAD,
                "tensor.extract", INDEX),
    "extract_in_generic": (SIX + """
        %e = tensor.empty() : tensor<4xi64>
        %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
            iterator_types = ["parallel"]} ins(%x : tensor<4xi64>) outs(%e : tensor<4xi64>) {
        ^bb0(%a: i64, %b: i64):
          %k = arith.index_cast %a : i64 to index
          %r = tensor.extract %six[%k] : tensor<6xi64>
          linalg.yield %r : i64
        } -> tensor<4xi64>\n""", "tensor.extract", INDEX),
    "extract_negative": (SIX + """
        %i64 = tensor.extract %x[%c0] : tensor<4xi64>
        %k = arith.index_cast %i64 : i64 to index
        %i = arith.subi %c2, %k : index
        %r = tensor.extract %six[%i] : tensor<6xi64>\n""" + SPREAD,
                         "tensor.extract", "dimension 0: index -1, expected 0 to 5"),
    "insert": (SIX + NUMBER + """
        %put = tensor.insert %i64 into %six[%i] : tensor<6xi64>
        %y = tensor.extract_slice %put[2] [4] [1] : tensor<6xi64> to tensor<4xi64>\n""",
               "tensor.insert", INDEX),
    "extract_slice": (SIX + """
        %i64 = tensor.extract %x[%c0] : tensor<4xi64>
        %i = arith.index_cast %i64 : i64 to index
        %y = tensor.extract_slice %six[%i] [4] [1] : tensor<6xi64> to tensor<4xi64>\n""",
                      "tensor.extract_slice", "dimension 0: index 3, expected 0 to 2"),
    "insert_slice": (SIX + """
        %i64 = tensor.extract %x[%c0] : tensor<4xi64>
        %i = arith.index_cast %i64 : i64 to index
        %put = tensor.insert_slice %x into %six[%i] [4] [1] : tensor<4xi64> into tensor<6xi64>
        %y = tensor.extract_slice %put[1] [4] [1] : tensor<6xi64> to tensor<4xi64>\n""",
                     "tensor.insert_slice", "dimension 0: index 3, expected 0 to 2"),
    "slice_size": (SIX + NUMBER + """
        %part = tensor.extract_slice %six[1] [%i] [1] : tensor<6xi64> to tensor<?xi64>
        %r = tensor.extract %part[%c2] : tensor<?xi64>\n""" + SPREAD,
                   "tensor.extract_slice",
                   "elements of dimension 0 behind the first: index 5, expected 0 to 4"),
    "slice_stride": (SIX + NUMBER + """
        %stride = arith.subi %i, %c1 : index
        %part = tensor.extract_slice %six[1] [2] [%stride] : tensor<6xi64> to tensor<2xi64>
        %r = tensor.extract %part[%c1] : tensor<2xi64>\n""" + SPREAD,
                     "tensor.extract_slice",
                     "elements of dimension 0 behind the first: index 1, expected 0 to 0"),
    "float_index": (SIX + """
        %i64 = tensor.extract %x[%c0] : tensor<4xi64>
        %f = arith.sitofp %i64 : i64 to f64
        %large = math.exp2 %f : f64
        %larger = arith.mulf %large, %large : f64
        %much = arith.mulf %larger, %larger : f64
        %more = arith.mulf %much, %much : f64
        %most = arith.mulf %more, %more : f64
        %third = arith.constant 2.3283064365386963e-10 : f64
        %scaled = arith.mulf %most, %third : f64
        %k64 = arith.fptosi %scaled : f64 to i64
        %k32 = arith.trunci %k64 : i64 to i32
        %wide = arith.extsi %k32 : i32 to i64
        %same = arith.cmpi eq, %wide, %k64 : i64
        %i = arith.index_cast %k64 : i64 to index
        %r = tensor.extract %six[%i] : tensor<6xi64>\n""" + SPREAD,
                    "tensor.extract", "dimension 0: index "),
    "carried_new": (SIX + """
        %c30 = arith.constant dense<30> : tensor<4xi64>
        %both:2 = scf.for %k = %c0 to %c5 step %c1 iter_args(%s = %x, %t = %c30)
            -> (tensor<4xi64>, tensor<4xi64>) {
          scf.yield %t, %s : tensor<4xi64>, tensor<4xi64>
        }
        %i64 = tensor.extract %both#1[%c3] : tensor<4xi64>
        %i = arith.index_cast %i64 : i64 to index
        %r = tensor.extract %six[%i] : tensor<6xi64>
        %y = linalg.fill ins(%r : i64) outs(%both#0 : tensor<4xi64>) -> tensor<4xi64>\n""",
                    "tensor.extract", INDEX),
    "loop_step": (ZERO.format(least=0) + """
        %step = arith.index_cast %d : i64 to index
        %minus = arith.subi %c0, %step : index
        %r = scf.for %k = %c0 to %c6 step %minus iter_args(%s = %i64) -> i64 {
          %t = arith.addi %s, %i64 : i64
          scf.yield %t : i64
        }\n""" + SPREAD, "scf.for", "has a step that is not above 0"),
    "size": (ZERO.format(least=0) + """
        %k = arith.index_cast %d : i64 to index
        %size = arith.subi %c0, %k : index
        %less = arith.subi %size, %c1 : index
        %e0 = tensor.empty(%less) : tensor<?xi64>
        %n = tensor.dim %e0, %c0 : tensor<?xi64>
        %r = arith.index_cast %n : index to i64\n""" + SPREAD, "tensor.empty",
             "size 0: index -1, expected 0 to"),
    "shapes": (SIX + NUMBER + """
        %part = tensor.extract_slice %six[0] [%i] [1] : tensor<6xi64> to tensor<?xi64>
        %other = tensor.extract_slice %six[0] [%c5] [1] : tensor<6xi64> to tensor<?xi64>
        %j = arith.minsi %i, %c5 : index
        %same = tensor.extract_slice %six[0] [%j] [1] : tensor<6xi64> to tensor<?xi64>
        %sum = linalg.add ins(%part, %same : tensor<?xi64>, tensor<?xi64>)
            outs(%part : tensor<?xi64>) -> tensor<?xi64>
        %r = tensor.extract %sum[%c1] : tensor<?xi64>\n""" + SPREAD, "linalg.add",
               "dimension #0 of input/output operand #1 is incompatible"),
    "cast": (SIX + """
        %i64 = tensor.extract %x[%c3] : tensor<4xi64>
        %i = arith.index_cast %i64 : i64 to index
        %four = arith.minsi %i, %c3 : index
        %five = arith.subi %i, %four : index
        %more = arith.cmpi eq, %five, %c3 : index
        %n = arith.select %more, %c5, %c4 : index
        %part = tensor.extract_slice %six[0] [%n] [1] : tensor<6xi64> to tensor<?xi64>
        %y = tensor.cast %part : tensor<?xi64> to tensor<4xi64>\n""", "tensor.cast",
             "size mismatch of dim 0"),
}
for op, is_signed in [("divsi", True), ("remsi", True), ("ceildivsi", True),
                      ("floordivsi", True), ("divui", False), ("remui", False),
                      ("ceildivui", False)]:
    KINDS[op] = (ZERO.format(least=100) + f"%r = arith.{op} %least, %d : i64\n" + SPREAD,
                 f"arith.{op}", "divides by 0")
    KINDS[op + "_tensor"] = (ZERO.format(least=100) + f"""
        %thirds = arith.constant dense<3> : tensor<4xi64>
        %divisor = arith.subi %thirds, %x : tensor<4xi64>
        %shift = arith.constant dense<[0, 4, 4, 4]> : tensor<4xi64>
        %apart = arith.addi %divisor, %shift : tensor<4xi64>
        %y = arith.{op} %x, %apart : tensor<4xi64>\n""", f"arith.{op}", "divides by 0")
    if is_signed:
        KINDS[op + "_least"] = (ZERO.format(least=-2**63) + f"""
            %two = arith.constant 2 : i64
            %two_more = arith.subi %two, %i64 : i64
            %plus = arith.addi %two_more, %two_more : i64
            %plus_one = arith.addi %plus, %two : i64
            %minus = arith.subi %plus_one, %two : i64
            %one = arith.constant 1 : i64
            %odd = arith.addi %minus, %one : i64
            %r = arith.{op} %least, %odd : i64\n""" + SPREAD,
                                f"arith.{op}", "divides the least number of its type by -1")
KINDS["linalg_div"] = ("""
    %threes = arith.constant dense<[3, 9, 9, 9]> : tensor<4xi64>
    %divisor = arith.subi %threes, %x : tensor<4xi64>
    %e = tensor.empty() : tensor<4xi64>
    %y = linalg.div ins(%x, %divisor : tensor<4xi64>, tensor<4xi64>)
        outs(%e : tensor<4xi64>) -> tensor<4xi64>\n""", "arith.divsi", "divides by 0")

MODEL = """
pipe.schedule @p workers 2 microbatches {microbatches} {{
  path on [0, 1]
  stage 0 forward @same backward @back
  stage 1 forward @{name} backward @back
  data @data
  loss @loss
}}
func.func @same(%x: tensor<4xi64> {{pipe.input}}) -> (tensor<4xi64> {{pipe.output}}) {{
  return %x : tensor<4xi64>
}}
func.func @{name}(%x: tensor<4xi64> {{pipe.input}}) -> (tensor<4xi64> {{pipe.output}}) {{
  {constants}
  %y = call @inner(%x) : (tensor<4xi64>) -> tensor<4xi64>
  return %y : tensor<4xi64>
}}
func.func private @inner(%x: tensor<4xi64>) -> tensor<4xi64> {{
  {constants}
  {body}
  return %y : tensor<4xi64>
}}
func.func @back(%dy: tensor<4xi64> {{pipe.output_gradient}})
    -> (tensor<4xi64> {{pipe.input_gradient}}) {{
  return %dy : tensor<4xi64>
}}
func.func @data(%m: i64 {{pipe.microbatch}}) -> (tensor<4xi64> {{pipe.input}}) {{
  %x = tensor.generate {{
  ^bb0(%i: index):
    %j = arith.index_cast %i : index to i64
    %k = arith.addi %j, %m : i64
    tensor.yield %k : i64
  }} : tensor<4xi64>
  return %x : tensor<4xi64>
}}
func.func @loss(%y: tensor<4xi64> {{pipe.output}})
    -> (tensor<f32> {{pipe.loss}}, tensor<4xi64> {{pipe.output_gradient}}) {{
  %zero = arith.constant dense<0> : tensor<i64>
  %sum = linalg.reduce {{ arith.addi }} ins(%y : tensor<4xi64>) outs(%zero : tensor<i64>)
      dimensions = [0]
  %loss = arith.sitofp %sum : tensor<i64> to tensor<f32>
  return %loss, %y : tensor<f32>, tensor<4xi64>
}}
"""
CONSTANTS = "\n  ".join(f"%c{i} = arith.constant {i} : index" for i in range(7))


def model(name, microbatches):
    return MODEL.format(microbatches=microbatches, name=name, body=KINDS[name][0],
                        constants=CONSTANTS)


def run(folder, tool, options, name, microbatches):
    source = folder / f"{name}{microbatches}.mlir"
    source.write_text(model(name, microbatches))
    return subprocess.run([tool, source, "--schedule=gpipe", "--steps=1", *options],
                          capture_output=True, text=True)


def main():
    folder, tool, *options = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name, (_, op, text) in KINDS.items():
        good = run(folder, tool, [*options, "--check"], name, 3)
        if good.returncode or "check: passed" not in good.stdout:
            print(f"{name}: 3 microbatches should pass:\n{good.stdout}{good.stderr}")
            wrong += 1
        bad = run(folder, tool, options, name, 4)
        wanted = f"F of stage 1: '{op}' op in function 'inner'"
        if bad.returncode != 1 or wanted not in bad.stderr or text not in bad.stderr:
            print(f"{name}: wanted status 1 and '{wanted} .. {text}', found status "
                  f"{bad.returncode} and\n{bad.stderr}")
            wrong += 1
    print(f"{len(KINDS)} kinds of ops, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
