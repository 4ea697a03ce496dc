//===- LoadProgramTest.cpp - Programs there and back ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions that become ops are read from these ops again.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "../Support/FamilyCases.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Conversion/PipeToExec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace pipesched;

namespace {
struct LoadProgramTest : testing::Test {
  LoadProgramTest() {
    context.loadDialect<pipe::PipeDialect, exec::ExecDialect>();
  }

  /// The rows as a program, or null where they cannot be generated.
  OwningOpRef<exec::ProgramOp> convert(const FamilyCase &one,
                                       ReceivePlacement placement) {
    llvm::Expected<Table> table = one.generate();
    if (!table) {
      llvm::consumeError(table.takeError());
      return nullptr;
    }
    Location location = UnknownLoc::get(&context);
    module = ModuleOp::create(location);
    auto builder = OpBuilder::atBlockEnd(module->getBody());
    pipe::ScheduleOp schedule =
        createSchedule(builder, location, "s", std::move(*table));
    FailureOr<Program> program = lowerSchedule(schedule, placement);
    if (failed(program))
      return nullptr;
    lowered = std::move(*program);
    return createProgram(schedule, lowered);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Program lowered;
};

/// Everything that a program waits for, each pair as one.
std::vector<std::vector<uint32_t>> waitsOf(const Program &program) {
  std::vector<std::vector<uint32_t>> waits;
  auto firstOfPair = [&](uint32_t i) {
    return i > 0 && program.instructions[i - 1].is(InstructionKind::Compute) &&
                   program.instructions[i - 1].cell.overlapsNext()
               ? i - 1
               : i;
  };
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (firstOfPair(i) == i)
      waits.emplace_back();
    for (uint32_t operand : program.operandsOf(i))
      if (!llvm::is_contained(waits.back(), firstOfPair(operand)))
        waits.back().push_back(firstOfPair(operand));
  }
  return waits;
}

void expectEqual(const Program &a, const Program &b, const FamilyCase &one) {
  ASSERT_EQ(a.instructions.size(), b.instructions.size()) << one;
  for (size_t i = 0; i < a.instructions.size(); ++i) {
    EXPECT_EQ(a.instructions[i].cell, b.instructions[i].cell) << one;
    EXPECT_EQ(a.instructions[i].kind, b.instructions[i].kind) << one;
    if (!a.instructions[i].is(InstructionKind::AllReduce))
      EXPECT_EQ(a.instructions[i].peer, b.instructions[i].peer) << one;
  }
  EXPECT_EQ(a.rowBegins, b.rowBegins) << one;
  EXPECT_EQ(a.partner, b.partner) << one;
  EXPECT_EQ(waitsOf(a), waitsOf(b)) << one;
}
} // namespace

TEST_F(LoadProgramTest, ReadsWhatWasConverted) {
  int64_t numPrograms = 0;
  for (const Family &family : families())
    for (int64_t microbatches : {4, 8})
      forAllOptions(family, 4, microbatches, [&](const FamilyCase &one) {
        for (auto placement :
             {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
          OwningOpRef<exec::ProgramOp> op = convert(one, placement);
          if (!op)
            continue;
          FailureOr<LoadedProgram> loaded = loadProgram(*op);
          ASSERT_TRUE(succeeded(loaded)) << one;
          expectEqual(loaded->program, lowered, one);
          ++numPrograms;
        }
      });
  EXPECT_GT(numPrograms, 300);
}

TEST_F(LoadProgramTest, ReadsOpsInAnyPlaceInMemory) {
  FamilyCase one{findFamily("zb-h1"), 4, 16, {}};
  OwningOpRef<exec::ProgramOp> op = convert(one, ReceivePlacement::Arrival);
  ASSERT_TRUE(op);
  // Clones from the last to the first, with other memory between them.
  std::vector<std::unique_ptr<char[]>> between;
  for (exec::WorkerOp worker : op->getWorkerOps()) {
    for (Operation &old :
         llvm::make_early_inc_range(llvm::reverse(*worker.getBody()))) {
      between.push_back(std::make_unique<char[]>(40000));
      Operation *copy = old.clone();
      old.getBlock()->getOperations().insertAfter(old.getIterator(), copy);
      old.replaceAllUsesWith(copy);
      old.erase();
    }
  }
  ASSERT_TRUE(succeeded(verify(*op)));
  FailureOr<LoadedProgram> loaded = loadProgram(*op);
  ASSERT_TRUE(succeeded(loaded));
  expectEqual(loaded->program, lowered, one);
}
