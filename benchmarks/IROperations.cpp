//===- IROperations.cpp - Benchmarks of the dialects ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The schedule as IR: text and bytecode in both directions, the op verifiers,
// conversion to exec and back to a flat program, and bytecode to a report.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Conversion/PipeToExec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Target/Report.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::bench;

/// Returns the value, or ends the process: the diagnostic has been printed.
template <typename T>
static T take(FailureOr<T> value) {
  if (failed(value))
    llvm::report_fatal_error("pipesched-bench: see the error above");
  return std::move(*value);
}

namespace {
/// The workload's table in a module.
class Schedule {
public:
  explicit Schedule(Workload &workload);

  MLIRContext *getContext() { return &context; }
  ModuleOp getModule() { return *module; }
  pipe::ScheduleOp getOp() {
    return *module->getOps<pipe::ScheduleOp>().begin();
  }
  std::string print();
  std::string writeBytecode();

private:
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};
} // namespace

Schedule::Schedule(Workload &workload) {
  context.loadDialect<pipe::PipeDialect, exec::ExecDialect>();
  OpBuilder builder(&context);
  module = ModuleOp::create(builder, builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  const Placement &placement = workload.getPlacement();
  auto schedule = pipe::ScheduleOp::create(
      builder, module->getLoc(), "schedule", placement.getNumWorkers(),
      placement.getNumMicrobatches());
  schedule.setFamily(workload.getFamily(), {});
  pipe::storePaths(schedule, placement.getPaths());
  pipe::storeRows(schedule, std::move(workload.generate().rows));
}

std::string Schedule::print() {
  std::string text;
  llvm::raw_string_ostream os(text);
  getModule().print(os);
  return text;
}

std::string Schedule::writeBytecode() {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(getModule(), os)))
    llvm::report_fatal_error("the module cannot be written as bytecode");
  return bytes;
}

//===----------------------------------------------------------------------===//
// Reading and writing
//===----------------------------------------------------------------------===//

/// Reads text or bytecode without verifying; `verify-ops` is a separate row.
static OwningOpRef<ModuleOp> read(llvm::StringRef source,
                                  MLIRContext *context) {
  ParserConfig config(context, /*verifyAfterParse=*/false);
  return parseSourceString<ModuleOp>(source, config);
}

static void print(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  measure(state, workload, [&] { return schedule.print(); });
}

static void parse(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  std::string text = schedule.print();
  measure(state, workload, [&] { return read(text, schedule.getContext()); });
}

static void writeBytecode(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  measure(state, workload, [&] { return schedule.writeBytecode(); });
}

static void readBytecode(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  std::string bytes = schedule.writeBytecode();
  measure(state, workload, [&] { return read(bytes, schedule.getContext()); });
}

static void verifyOps(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  measure(state, workload,
          [&] { return succeeded(verify(schedule.getModule())); });
}

//===----------------------------------------------------------------------===//
// Exec
//===----------------------------------------------------------------------===//

static OwningOpRef<exec::ProgramOp> convert(Schedule &schedule) {
  Program program =
      take(lowerSchedule(schedule.getOp(), ReceivePlacement::Arrival));
  return createProgram(schedule.getOp(), program);
}

static void convertToExec(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  measure(state, workload, [&] { return convert(schedule); });
}

static void loadFromExec(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  OwningOpRef<exec::ProgramOp> program = convert(schedule);
  measure(state, workload,
          [&] { return take(loadProgram(*program, ListOps::No)); });
}

/// Adds an op without facts for each instruction of a row: it has the operands
/// of the instruction, and others wait for its result.
static void addPlainOps(Block &body, const Program &program, int64_t row,
                        Location loc) {
  MLIRContext *context = loc.getContext();
  OperationName name(UnrealizedConversionCastOp::getOperationName(), context);
  Type type = NoneType::get(context);
  DictionaryAttr noAttributes = DictionaryAttr::get(context);
  uint32_t begin = program.rowBegins[row];
  std::vector<Value> results;
  SmallVector<Value> operands;
  for (uint32_t i = begin; i != program.rowBegins[row + 1]; ++i) {
    operands.clear();
    for (uint32_t operand : program.operandsOf(i))
      operands.push_back(results[operand - begin]);
    auto *op = mlir::Operation::create(loc, name, TypeRange(type), operands,
                                       noAttributes, OpaqueProperties(nullptr),
                                       /*successors=*/{}, /*numRegions=*/0);
    body.push_back(op);
    results.push_back(op->getResult(0));
  }
}

/// The time of MLIR itself for the operations of a program.
static void plainOperations(benchmark::State &state, Workload &workload) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Location loc = UnknownLoc::get(&context);
  const Program &program = workload.program();
  measure(state, workload, [&] {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
      ModuleOp worker = ModuleOp::create(loc);
      module->push_back(worker);
      addPlainOps(*worker.getBody(), program, row, loc);
    }
    return module;
  });
}

//===----------------------------------------------------------------------===//
// From bytecode to a report
//===----------------------------------------------------------------------===//

/// The same as `pipesched-translate --export-report` on a bytecode file, on
/// fresh pages.
static void bytecodeToReport(benchmark::State &state, Workload &workload) {
  Schedule schedule(workload);
  std::string bytes = schedule.writeBytecode();
  measure(state, workload, [&] {
    dropFreedPages();
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(bytes, schedule.getContext());
    NamedEvaluation result =
        take(evaluate(findEvaluables(*module).front(), TimingOptions()));
    llvm::raw_null_ostream os;
    llvm::json::OStream json(os, /*IndentSize=*/2);
    writeReport(json, result);
    return result.evaluation.totals.makespanPs;
  });
}

llvm::ArrayRef<bench::Operation> bench::irOperations() {
  static constexpr bench::Operation kOperations[] = {
      {"print", print},
      {"parse", parse},
      {"write-bytecode", writeBytecode},
      {"read-bytecode", readBytecode},
      {"verify-ops", verifyOps},
      {"convert-to-exec", convertToExec},
      {"plain-operations", plainOperations},
      {"load-from-exec", loadFromExec},
      {"bytecode-to-report", bytecodeToReport},
  };
  return kOperations;
}
