"""IR as objects: as in MLIR's own bindings, and safe where these are not."""

from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched import ir
from pipesched.command import main
from pipesched.dialects import exec as exec_
from pipesched.dialects import pipe

# The same script on both


def told(action: Any) -> str:
    """The result of a call, or its error."""
    try:
        return repr(action())
    except (AttributeError, TypeError, RuntimeError) as error:
        return type(error).__name__
    except Exception as error:
        return f"{type(error).__name__}: {error}"


TEXT = """
"a.module"() ({
^bb0(%x: i32, %y: i64):
  %0, %1 = "a.two"(%y, %x) {k = 7 : i64, flag, name = "n", list = [1, true, @s]}
    : (i64, i32) -> (i32, i32)
  "a.use"(%0, %x, %0) : (i32, i32, i32) -> ()
  "a.nested"() ({ "a.leaf"() : () -> () }, {}) : () -> ()
}) {kept = array<i32: 3, -4>} : () -> ()
"""


def passes_and_handlers(mlir: ModuleType, manager: Any, see: Any) -> None:
    """Functions of Python that MLIR calls."""
    module = mlir.Module.parse('"a.x"() : () -> ()')

    def mark(op: Any, running: Any) -> None:
        op.regions[0].blocks[0].operations[0].operation.attributes["marked"] = mlir.UnitAttr.get()
        see(op.name, type(running).__name__)

    passes = manager("builtin.module")
    passes.add(mark, argument="mark")
    passes.add(lambda op, _: see(op), name="show", argument="show")
    see(passes)
    passes.run(module.operation)
    failing = manager()
    failing.add(lambda op, running: running.signal_pass_failure())
    see(told(lambda: failing.run(module.operation)))
    notes: list[str] = []
    context = module.context

    def handler(name: str, is_handled: bool) -> Any:
        def note(told: Any) -> bool:
            notes.append(f"{name}: {told} {told.location} {len(told.notes)}")
            return is_handled

        return note

    with context.attach_diagnostic_handler(handler("outer", True)) as outer:
        inner = context.attach_diagnostic_handler(handler("inner", False))
        mlir.Location.file("f.py", 1, 2, context).emit_error("lost")
        inner.detach()
        mlir.Location.unknown(context).emit_error("lost again")
        see(inner.attached, outer.attached, outer.had_error)
    see(outer.attached, *notes)


def script(mlir: ModuleType, manager: Any) -> list[str]:
    """The view of a program that reads, walks and changes IR."""
    seen: list[str] = []

    def see(*values: object) -> None:
        seen.append(" ".join(map(str, values)))

    with mlir.Context() as context:
        context.allow_unregistered_dialects = True
        see(mlir.Context.current is context, told(lambda: mlir.Location.current))
        module = mlir.Module.parse(TEXT)
        top = module.body.operations[0].operation
        block = top.regions[0].blocks[0]
        two, use, nested = [op.operation for op in block]
        see(two.name, two.location, len(block.operations), len(top.regions[0].blocks))
        see(two.parent == top, two.block == block, block.region == top.regions[0], top.attached)
        see(*[f"{key}={two.attributes[key]!r}" for key in sorted(two.attributes)])
        entries = two.attributes["list"]
        see(len(entries), *map(repr, entries), list(top.attributes["kept"]))
        see("k" in two.attributes, "j" in two.attributes, len(two.attributes))
        see(told(lambda: two.attributes["j"]), told(lambda: two.attributes.__delitem__("j")))
        see(*two.results, two.results[1].result_number, two.results[0].type)
        x, y = block.arguments
        see(x, y.arg_number, y.owner == block, two.operands[0] == y, len(two.operands))
        see(*sorted((use.owner.name, use.operand_number) for use in x.uses))
        see(told(lambda: two.result), told(lambda: use.operands[5]), told(lambda: use.block.foo))
        names: list[str] = []

        def visit(op: Any) -> Any:
            names.append(op.name)
            skipped = op.name == "a.nested"
            return mlir.WalkResult.SKIP if skipped else mlir.WalkResult.ADVANCE

        module.operation.walk(visit)
        module.operation.walk(visit, mlir.WalkOrder.PRE_ORDER)
        module.operation.walk(lambda op: mlir.WalkResult.INTERRUPT)
        see(*names)

        with mlir.Location.file("f.py", 3, 4) as place:
            see(mlir.Location.current == place, told(lambda: mlir.InsertionPoint.current))
            number = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), -5)
            with mlir.InsertionPoint(use):
                made = mlir.Operation.create("a.made", results=[x.type], attributes={"n": number})
            free = mlir.Operation.create("a.free", operands=[made.result, y], regions=2)
            see(free.attached, free.location, made.location, number.value, number == -5)
            see(told(lambda: mlir.InsertionPoint(use).insert(made)))
            mlir.InsertionPoint.at_block_begin(block).insert(free)
            inner = free.regions[1].blocks.append(x.type, x.type)
            with mlir.InsertionPoint(inner):
                mlir.Operation.create("a.inner", operands=list(inner.arguments))
            two.results[0].replace_all_uses_with(made.results[0])
            use.operands[1] = made.result
            free.move_after(use)
            copy = free.clone(ip=mlir.InsertionPoint.at_block_begin(block))
            see(copy == free, copy.operands[1] == y, free.verify())
            del two.attributes["flag"]
            two.attributes["k"] = mlir.StringAttr.get("other")
            nested.detach_from_parent()
            see(nested.attached, told(nested.detach_from_parent), told(lambda: nested.parent))
            copy.erase()
            with mlir.Location.name("outer", place):
                block.append(mlir.Operation.create("a.last"))
        see(module, block)
        see(module.operation.get_asm(enable_debug_info=True, use_local_scope=True))
        see(told(module.operation.verify), nested)
        for text in ('"a.b"() : ()', '"a.b"() {', "%0 = builtin.module"):
            see(told(lambda text=text: mlir.Module.parse(text)))
        see(told(lambda: mlir.Attribute.parse("#no")), told(lambda: mlir.Type.parse("i")))
        see(*map(mlir.Attribute.parse, ("1 : i8", "unit", "@f", "[]")), mlir.Type.parse("i7").width)
        see(mlir.UnitAttr.get(), mlir.BoolAttr.get(True).value, mlir.ArrayAttr.get([number]))
        see(told(lambda: manager.parse("a")))
        body = mlir.Module.parse('%0 = "a.x"() : () -> i8 "a.y"(%0) : (i8) -> ()').body
        body.operations[0].operation.move_after(body.operations[1].operation)
        see(told(body.owner.verify))
        manager.parse("builtin.module()").run(module.operation)
        passes_and_handlers(mlir, manager, see)
    see(told(lambda: mlir.Module.parse("")), told(lambda: mlir.Operation.create("a.b")))
    return seen


def test_as_in_the_bindings_of_mlir() -> None:
    theirs = pytest.importorskip("jaxlib.mlir.ir")
    from jaxlib.mlir import passmanager

    ours = script(ir, ir.PassManager)
    for mine, other in zip(ours, script(theirs, passmanager.PassManager), strict=True):
        assert mine == other


# Schedules


def parent_of(op: ir.Operation | ir.OpView) -> ir.Operation:
    assert op.parent is not None
    return op.parent


def built(rows: list[list[Any]]) -> ir.Module:
    """A schedule of two workers, op by op."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        i64 = ir.IntegerType.get_signless(64)

        def number(value: int) -> ir.Attribute:
            return ir.IntegerAttr.get(i64, value)

        sizes = {"workers": number(2), "microbatches": number(2)}
        with ir.InsertionPoint(module.body):
            schedule = ir.Operation.create(
                "pipe.schedule", attributes={"sym_name": ir.StringAttr.get("s"), **sizes}, regions=1
            )
        with ir.InsertionPoint(schedule.regions[0].blocks.append()):
            path = {"workers": ir.DenseI32ArrayAttr.get([0, 1])}
            ir.Operation.create("pipe.path", attributes=path)
            for worker, row in enumerate(rows):
                op = ir.Operation.create("pipe.worker", attributes={"worker": number(worker)})
                ir.set_row(op, row)
    return module


ROWS: list[list[Any]] = [["0F0", "0F1", "0B0", "0B1"], ["1F0", (1, "B", 0), None, "1F1", "1B1"]]


def test_a_schedule_is_built_op_by_op() -> None:
    module = built(ROWS)
    assert module.operation.verify()
    schedule = pipesched.Schedule.from_text(str(module))
    assert schedule.rows == (tuple(ROWS[0]), ("1F0", "1B0", "_", "1F1", "1B1"))
    with module.context:
        ir.PassManager.parse("builtin.module(pipe-verify,convert-pipe-to-exec)").run(
            module.operation
        )
    assert module.body.operations[0].name == "exec.program"


def test_rows_of_a_schedule_change() -> None:
    schedule = pipesched.generate("1f1b", workers=2, microbatches=3)
    module = schedule.module
    op = module.body.operations[0]
    assert op.attributes["family"].value == "1f1b"
    rows = [row for row in op.regions[0].blocks[0] if row.name == "pipe.worker"]
    assert [tuple(map(str, ir.get_row(row))) for row in rows] == list(schedule.rows)
    ir.set_row(rows[0], "0F0 0F1 0F2 0B0 0B1 0B2")
    ir.set_row(rows[1], ["1F0", ("1F1", "1B0"), "1F2+1B1", "_3", "1B2"])
    assert "family" not in op.attributes
    assert ir.get_row(rows[1]) == ["1F0", "1F1+1B0", "1F2+1B1", "_3", "1B2"]
    changed = pipesched.Schedule.from_text(str(module))
    changed.verify()
    assert changed.rows[0] != schedule.rows[0]
    assert schedule.module.body.operations[0].attributes["family"].value == "1f1b"


def test_wrong_rows() -> None:
    path, row, _ = built(ROWS).body.operations[0].regions[0].blocks[0]
    with pytest.raises(pipesched.PipeSchedError, match=r"worker 0, entry 1: 'x' is no entry"):
        ir.set_row(row, ["0F0", "x"])
    with pytest.raises(pipesched.PipeSchedError, match="expected a stage from 0 to 16777215"):
        ir.set_row(row, [(2**40, "F", 0)])
    with pytest.raises(ValueError, match="only pipe.worker has one"):
        ir.set_row(path, ["0F0"])
    with pytest.raises(ValueError, match="only pipe.worker has one"):
        ir.get_row(path)
    assert ir.get_row(row) == ROWS[0]
    ir.set_row(row, ["5F0"])
    with pytest.raises(ir.MLIRError, match=r"cell 0 \(5F0\): stage 5 is out of range") as error:
        parent_of(row).verify()
    assert error.value.error_diagnostics[0].severity is ir.DiagnosticSeverity.ERROR


def test_wrong_attributes() -> None:
    op = built(ROWS).body.operations[0]
    with op.context:
        text = ir.StringAttr.get("text")
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 3)
    for name, wrong in {"workers": text, "sym_name": number}.items():
        before = str(op)
        with pytest.raises(ir.MLIRError, match=f"'{name}'"):
            op.attributes[name] = wrong
        assert str(op) == before
    with pytest.raises(ValueError, match="is a property"):
        del op.attributes["workers"]
    op.attributes["workers"] = number
    with pytest.raises(ir.MLIRError, match="has 3 workers|row"):
        op.verify()
    with pytest.raises(ir.MLIRError, match="Verification failed before the pass pipeline"):
        ir.PassManager.parse("any(pipe-verify)", op.context).run(op)


def test_errors_of_passes_point_at_cells() -> None:
    text = "pipe.schedule @s workers 1 microbatches 1 {\n path on [0]\n worker 0 runs [0F0]\n}"
    with ir.Context():
        module = ir.Module.parse(text)
        with pytest.raises(ir.MLIRError, match='"-":3:17: .* 0B0') as error:
            ir.PassManager.parse("builtin.module(pipe-verify)").run(module.operation)
    assert str(error.value).startswith("Failure while executing pass pipeline:\nerror: ")


def test_classes_of_operations() -> None:
    text = pipesched.generate("zb-v", workers=2, microbatches=2).to_text()
    program = pipesched.Schedule.from_text(text).transform("convert-pipe-to-exec")
    named = [*vars(pipe).values(), *vars(exec_).values()]
    classes = {each.OPERATION_NAME: each for each in named if hasattr(each, "OPERATION_NAME")}
    for schedule in (text, program.to_text()):
        context = ir.Context()
        for op in ir.Module.parse(schedule, context).body:
            seen: list[ir.OpView] = []

            def see(each: ir.Operation, seen: list[ir.OpView] = seen) -> ir.WalkResult:
                seen.append(each.opview)
                return ir.WalkResult.ADVANCE

            op.walk(see)
            for view in seen:
                assert type(view) is classes[view.operation.name]
                assert view == view.operation and hash(view) == hash(view.operation)
    assert len(classes) == 27 and all(map(context.is_registered_operation, classes))


def test_fields_of_operations() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            program = exec_.ProgramOp("p", workers=2, microbatches=1, slices=2)
        with ir.InsertionPoint(program.bodyRegion.blocks.append()):
            pipe.PathOp([0, 1], takes=[0, 1, 1])
            first, second = exec_.WorkerOp(0), exec_.WorkerOp(1)
        with ir.InsertionPoint(first.bodyRegion.blocks.append()):
            made = exec_.ComputeOp("0F0.1", flops=7)
            sent = exec_.SendOp("0F0.1", 1, [made], tag=3)
        with ir.InsertionPoint(second.bodyRegion.blocks.append()):
            exec_.ComputeOp("1F0.1", [exec_.RecvOp("0F0.1", 0, tag=3)])
        assert program.verify()
        assert [str(made.cell), made.flops.value, made.overlapped] == ["0F0.1", 7, None]
        assert sent.tag.value == 3 and sent.waits[0] == made.done and sent.messageBytes is None
        sent.messageBytes, sent.tag, made.overlapped = 5, None, "0B0.1"
        assert re.search(r"send 0F0\.1 to 1 after %\w+ bytes 5", str(module))
        assert made.overlapped == "0B0.1" and program.workers.value == 2
        kernel = pipe.KernelOp("k", "matrix")
        assert (kernel.name_.value, kernel.kept, kernel.forward) == ("k", False, None)
        work = ir.Attribute.parse("#pipe.work<5 flops, 8 bytes>")
        kernel.kept, kernel.forward, kernel.count, kernel.engine = True, work, 3, "vector"
        assert (kernel.kept, kernel.forward, kernel.count.value) == (True, work, 3)
        assert kernel.engine == "vector" and kernel.attributes["engine"].value == 1
        kernel.kept = kernel.forward = None
        assert not kernel.kept and kernel.forward is None
        with pytest.raises(TypeError, match="forward of pipe.kernel is an Attribute; got 5"):
            kernel.forward = 5
        with pytest.raises(ValueError, match="engine of pipe.kernel is one of .*; got 'none'"):
            kernel.engine = "none"
        with pytest.raises(pipesched.PipeSchedError, match="'x' is no entry"):
            made.cell = "x"
        with pytest.raises(ValueError, match="is one cell; got '0F0.0\\+0B0.0'"):
            made.cell = "0F0.0+0B0.0"
        with pytest.raises(ir.MLIRError, match="'cell'"):
            made.cell = ir.UnitAttr.get()


def test_example_writes_a_test(tmp_path: Path) -> None:
    path = tmp_path / "order.mlir"
    line = [sys.executable, str(ROOT / "examples" / "build_schedule.py"), str(path)]
    printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert re.findall("takes .*", printed) == ["takes 17 ms", "takes 19 ms"]
    assert "worker 0 runs [0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3]" in path.read_text()
    run = path.read_text().splitlines()[0].removeprefix("// RUN: ").replace("%s", str(path))
    places = [str(ROOT / "build" / "release" / "bin"), "/usr/lib/llvm-22/bin", os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(places)}

    def status(line: str) -> int:
        shell = ["bash", "-o", "pipefail", "-c", line]
        return subprocess.run(shell, env=environment, capture_output=True).returncode

    assert status(run) == 0
    assert status(run.replace("convert-pipe-to-exec", "pipe-align-slots")) != 0


def test_example_moves_cells() -> None:
    line = [sys.executable, str(ROOT / "examples" / "own_pass.py")]
    printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert "worker 3 runs [3F0 3F1 3B0 3B1 3F2" in printed
    assert printed.endswith("takes 47 instead of 49 ms\n")


PASS = """
from pipesched import ir
from pipesched.dialects import pipe


def last_first(op, running):
    def visit(each):
        row = each.opview
        if isinstance(row, pipe.WorkerOp):
            row.cells = [cell for phase in "FB" for cell in row.cells if phase in cell]
        return ir.WalkResult.ADVANCE

    op.walk(visit)


def wrong(op, running):
    op.regions[0].blocks[0].operations[0].attributes["lost"]


value = 5
"""


def test_passes_by_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(PASS)
    schedule = pipesched.generate("1f1b", workers=2, microbatches=3)
    mine = f"{tmp_path}/mine.py"
    changed = schedule.transform(f"pipe-verify{{messages=fifo}},{mine}:last_first, pipe-verify")
    assert changed.rows == pipesched.generate("gpipe", workers=2, microbatches=3).rows
    sizes = ["convert", "1f1b", "--pp", "2", "--microbatches", "3", "--pipeline"]
    assert main([*sizes, f"{mine}:last_first"]) == 0
    assert pipesched.Schedule.from_text(capsys.readouterr().out).rows == changed.rows
    for element, message in {
        f"{mine}:lost": "has no function 'lost', which would be a pass",
        f"{mine}:value": "has no function 'value', which would be a pass",
        f"{tmp_path}/no.py:lost": "pass function: cannot import",
        f"{mine}:wrong": "KeyError: 'attempt to access",
        f"{mine}:last_first,no-pass": "'no-pass' does not refer to a registered pass",
        f"{mine}:last_first,pipe-verify{{schedule=lost}}": "lost",
    }.items():
        with pytest.raises(pipesched.PipeSchedError, match=re.escape(message)):
            schedule.transform(element)
    assert main([*sizes, f"{mine}:last_first", "--show-passes"]) == 2
    assert main([*sizes, f"{mine}:last_first", "-o", mine]) == 2
    assert (tmp_path / "mine.py").read_text() == PASS


# Inputs that must not end the process


def free_context() -> ir.Context:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    return context


def test_wrong_callbacks_and_pipelines() -> None:
    with free_context():
        module = ir.Module.parse(TEXT)
        with pytest.raises(TypeError, match="returns a WalkResult"):
            module.operation.walk(lambda op: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            module.operation.walk(lambda op: 1 // 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(ValueError, match="'no' does not refer to a registered pass"):
            ir.PassManager.parse("builtin.module(no)")
        with pytest.raises(ValueError, match="'no' does not refer to a registered pass"):
            ir.PassManager().add("no")


def test_passes_keep_to_their_operation() -> None:
    module = pipesched.generate("1f1b", workers=2, microbatches=2).module
    kept: list[Any] = []

    def run(action: Any, op_name: str = "") -> ir.PassManager:
        manager = ir.PassManager("builtin.module", module.context)
        manager.add(action, op_name=op_name)
        manager.run(module.operation)
        return manager

    wrong: list[Any] = [lambda op, _: op.erase(), lambda op, _: op.detach_from_parent()]
    wrong += [lambda op, _: parent_of(op).regions[0].blocks.append()]
    wrong += [lambda op, _: ir.PassManager.parse("any()", op.context).run(parent_of(op))]
    for action in wrong:
        with pytest.raises(RuntimeError, match="only what is inside of the operation"):
            run(action, "pipe.schedule")
    with pytest.raises(ZeroDivisionError):
        run(lambda op, _: 1 // 0)
    with pytest.raises(ir.MLIRError, match=r"(?s)after a pass .*7F0"):
        run(lambda op, _: ir.set_row(op.regions[0].blocks[0].operations[1], "7F0"), "pipe.schedule")
    module = pipesched.generate("1f1b", workers=2, microbatches=2).module
    manager = run(lambda op, running: kept.extend([op, running]), "pipe.schedule")
    lost: list[Any] = [lambda: kept[0].name, lambda: kept[1].signal_pass_failure()]
    for use in lost:
        with pytest.raises(RuntimeError, match="has been invalidated|has ended"):
            use()
    manager.add(lambda op, _: manager.run(op))
    with pytest.raises(RuntimeError, match="is running"):
        manager.run(module.operation)
    with pytest.raises(ir.MLIRError, match="Failure while executing"):
        run(lambda op, running: running.signal_pass_failure())


def test_handlers_do_not_disturb_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ir.Context()
    seen: list[str] = []

    def handler(info: ir.DiagnosticInfo) -> bool:
        seen.append(f"{info.severity.name}: {info}")
        for action in (lambda: ir.Module.parse("no", context), lambda: attached.detach()):
            with pytest.raises(RuntimeError, match="a diagnostic handler cannot"):
                action()
        return True

    attached = context.attach_diagnostic_handler(handler)
    ir.Location.unknown(context).emit_error("lost")
    with pytest.raises(ir.MLIRError):
        ir.Module.parse("no", context)
    assert seen == ["ERROR: lost"]
    attached.detach()
    attached.detach()
    lost: list[Any] = []
    wrong_handlers: list[Any] = [lambda _: 1 // 0, lambda _: None]
    monkeypatch.setattr("sys.unraisablehook", lambda told: lost.append(told.exc_type))
    for action in wrong_handlers:
        with context.attach_diagnostic_handler(action) as wrong:
            ir.Location.unknown(context).emit_error("printed")
            assert wrong.had_error
    assert lost == [ZeroDivisionError, TypeError]


def test_what_is_gone_is_refused() -> None:
    with free_context():
        module = ir.Module.parse(TEXT)
        top = module.body.operations[0]
        block = top.regions[0].blocks[0]
        two, use, _ = block
        result, argument, attributes = two.results[0], block.arguments[0], two.attributes
        point = ir.InsertionPoint(use)
        with pytest.raises(ValueError, match="results are used"):
            two.erase()
        ir.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        lost: list[Any] = [lambda: str(two), lambda: block.operations, lambda: result.type]
        lost += [lambda: len(attributes), lambda: argument.uses, lambda: point.insert(top)]
        lost += [lambda: hash(use), lambda: use.erase(), lambda: top.regions]
        for use_of_it in lost:
            with pytest.raises(RuntimeError, match="has been invalidated"):
                use_of_it()
        module.body.operations[0].erase()
        assert str(module) == "module {\n}\n"


def test_memory_lives_as_long_as_its_objects() -> None:
    with free_context():
        leaf = ir.Module.parse(TEXT).body.operations[0].regions[0].blocks[0].operations[2]
        gc.collect()
        assert "a.leaf" in str(leaf) and parent_of(leaf).name == "a.module"
        other = ir.Module.parse("")
        other.body.append(leaf)
        top = parent_of(parent_of(leaf.regions[0].blocks[0].operations[0]))
        del other, leaf
        gc.collect()
        assert top.name == "builtin.module" and "a.leaf" in str(top)
        kept = ir.Operation.create(
            "a.kept",
            operands=[ir.Operation.parse('%0 = "a.lost"() : () -> i8').result],
            loc=ir.Location.unknown(),
        )
        gc.collect()
        assert '"a.lost"()' in str(kept.operands[0])
        two, use, _ = ir.Module.parse(TEXT).body.operations[0].regions[0].blocks[0]
        two.detach_from_parent()
        del _, use
        gc.collect()
        assert [each.owner.name for each in two.results[0].uses] == ["a.use"] * 2
        two.results[0].replace_all_uses_with(kept.operands[0])
        two.results[1].replace_all_uses_with(kept.operands[0])
        two.operands[0] = two.operands[1] = kept.operands[0]
        two.erase()


def test_contexts_do_not_mix() -> None:
    with free_context():
        other = ir.Module.parse(TEXT)
        foreign = ir.UnitAttr.get()
        arguments = other.body.operations[0].regions[0].blocks[0].arguments
    with free_context(), ir.Location.unknown():
        module = ir.Module.create()
        made = ir.Operation.create("a.b")
        mixes: tuple[Any, ...] = (
            lambda: made.attributes.__setitem__("x", foreign),
            lambda: ir.ArrayAttr.get([foreign]),
            lambda: other.body.append(made),
            lambda: ir.Location.name("x", ir.Location.unknown(other.context)),
            lambda: ir.PassManager.parse("builtin.module()").run(other.operation),
            lambda: ir.Operation.create("a.b", operands=arguments),
        )
        for mix in mixes:
            with pytest.raises(ValueError, match="of another Context"):
                mix()
        with pytest.raises(ValueError, match="into itself"):
            module.body.append(module.operation)
    with pytest.raises(ValueError, match="'a.b' is not registered"):
        ir.Operation.create("a.b", loc=ir.Location.unknown(ir.Context()))


def test_any_order_of_changes() -> None:
    """Moves, erases, copies and drops ops at random; the rest equals its printed text."""
    chance, checked = random.Random(5), 0
    for _ in range(40):
        with free_context(), ir.Location.unknown():
            modules = [ir.Module.parse(TEXT) for _ in range(3)]
            held: list[Any] = [module.operation for module in modules]
            for _ in range(60):
                change(chance, held)
            for op in filter(is_right, [module.operation for module in modules]):
                if not op.attached:
                    assert str(ir.Module.parse(str(op))) == str(op)
                    checked += 1
    assert checked > 20


def is_right(op: ir.Operation) -> bool:
    try:
        return op.verify()
    except (RuntimeError, ir.MLIRError):
        return False


def erase(op: ir.Operation) -> ir.WalkResult:
    op.erase()
    return ir.WalkResult.ADVANCE


def change_in_a_pass(chance: random.Random, held: list[Any]) -> None:
    """Changes under a pass, on an operation that may be the one that the pass runs on."""

    def run(*_: object) -> None:
        for _each in range(4):
            change(chance, held)

    op = chance.choice(held[:3])
    passes = ir.PassManager(context=op.context)
    passes.add(run)
    passes.run(op)


def change(chance: random.Random, held: list[Any]) -> None:
    """One change, which may be refused."""
    op = chance.choice(held)
    try:
        inside = [child for region in op.regions for block in region for child in block]
        held += inside[:3]
        other = chance.choice(held)
        changes: list[Any] = [
            lambda: op.erase(),
            lambda: op.detach_from_parent(),
            lambda: op.move_before(other),
            lambda: op.move_after(other),
            lambda: len(str(op)) < 999 and other.regions[0].blocks[0].append(op.clone(ip=False)),
            lambda: held.remove(other),
            lambda: op.results[0].replace_all_uses_with(other.results[0]),
            lambda: op.operands.__setitem__(0, other.results[0]),
            lambda: op.verify(),
            lambda: str(op),
            lambda: op.walk(erase),
            lambda: change_in_a_pass(chance, held),
        ]
        chance.choice(changes)()
    except (ValueError, RuntimeError, IndexError, ir.MLIRError):
        if not held or len(held) > 60:
            del held[20:]
