//===- ForeignInstructionTest.cpp - Instructions of other dialects --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An op of another dialect that implements InstructionOpInterface is verified,
// proved, timed and shown like ours; an op that does not is ignored.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ForeignDialect.h.inc"
#define GET_OP_CLASSES
#include "ForeignOps.h.inc"

#include "ForeignDialect.cpp.inc"
#define GET_OP_CLASSES
#include "ForeignOps.cpp.inc"

void foreign::ForeignDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ForeignOps.cpp.inc"
      >();
}

using namespace mlir;
using namespace pipesched;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
struct ForeignInstructionTest : testing::Test {
  ForeignInstructionTest() {
    context.loadDialect<exec::ExecDialect, foreign::ForeignDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      return success();
    });
  }

  /// The program of these two workers, or null.
  exec::ProgramOp parse(const std::string &first, const std::string &second) {
    module = parseSourceString<ModuleOp>(
        "exec.program @mixed profile <\"F=10us,B=20us,comm=3us\"> {\n"
        "worker 0 {\n" +
            first + "}\nworker 1 {\n" + second + "}\n}",
        ParserConfig(&context));
    return module ? *module->getOps<exec::ProgramOp>().begin() : nullptr;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string errors;
};

const std::string kSecond = "%a0 = recv 0F0 from 0\n"
                            "%f0 = compute 1F0 after %a0\n";
const std::string kFirst = "%f0 = foreign.launch 0 0\n"
                           "foreign.note\n"
                           "%s0 = foreign.put 0 0 after %f0\n";
} // namespace

TEST_F(ForeignInstructionTest, IsTimed) {
  exec::ProgramOp program = parse(kFirst, kSecond);
  ASSERT_TRUE(program) << errors;
  FailureOr<NamedEvaluation> result =
      evaluate(program, {Transport::Delay, ReceivePlacement::Arrival});
  ASSERT_TRUE(succeeded(result)) << errors;
  const Execution &execution = result->getExecution();
  EXPECT_EQ(execution.timeline.makespanPs, 23000000);
  EXPECT_THAT(execution.idle.busyPs, ElementsAre(10000000, 10000000));
}

TEST_F(ForeignInstructionTest, IsTheSameAsOurs) {
  exec::ProgramOp foreignProgram = parse(kFirst, kSecond);
  ASSERT_TRUE(foreignProgram) << errors;
  FailureOr<LoadedProgram> foreignLoaded = loadProgram(foreignProgram);
  ASSERT_TRUE(succeeded(foreignLoaded)) << errors;
  OwningOpRef<ModuleOp> kept = std::move(module);
  exec::ProgramOp ours = parse("%f0 = compute 0F0\n"
                               "%s0 = send 0F0 to 1 after %f0\n",
                               kSecond);
  ASSERT_TRUE(ours) << errors;
  FailureOr<LoadedProgram> ourLoaded = loadProgram(ours);
  ASSERT_TRUE(succeeded(ourLoaded)) << errors;
  const Program &a = foreignLoaded->program, &b = ourLoaded->program;
  ASSERT_EQ(a.instructions.size(), b.instructions.size());
  for (size_t i = 0; i < a.instructions.size(); ++i) {
    EXPECT_EQ(a.instructions[i].cell, b.instructions[i].cell);
    EXPECT_EQ(a.instructions[i].kind, b.instructions[i].kind);
    EXPECT_EQ(a.instructions[i].peer, b.instructions[i].peer);
  }
  EXPECT_EQ(a.operands, b.operands);
  EXPECT_EQ(a.partner, b.partner);
}

TEST_F(ForeignInstructionTest, IsProvedAndShown) {
  exec::ProgramOp program = parse(kFirst, kSecond);
  ASSERT_TRUE(program) << errors;
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  ASSERT_TRUE(succeeded(loaded)) << errors;
  EXPECT_FALSE(verifyMessages(loaded->program, MessageSemantics::Rendezvous));
  FailureOr<NamedEvaluation> result =
      evaluate(program, {Transport::Overlap, ReceivePlacement::Arrival});
  ASSERT_TRUE(succeeded(result)) << errors;
  std::string trace;
  llvm::raw_string_ostream os(trace);
  writeChromeTrace(os, ArrayRef<NamedEvaluation>(*result));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"0F0\",\"cat\":\"compute\""));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"0F0\",\"cat\":\"send\""));
}

TEST_F(ForeignInstructionTest, IsVerified) {
  EXPECT_FALSE(parse("%f0 = foreign.launch 0 0\n"
                     "%s0 = foreign.put 0 0\n",
                     kSecond));
  EXPECT_THAT(errors, HasSubstr("'foreign.put' op does not wait for the "
                                "compute of its cell 0F0"));
}

TEST_F(ForeignInstructionTest, IsPairedAcrossWorkers) {
  EXPECT_FALSE(parse(kFirst, "%f0 = compute 1F0\n"));
  EXPECT_THAT(errors, HasSubstr("'foreign.put' op has no partner: worker 1 has "
                                "no 'recv 0F0 from 0'"));
}

TEST_F(ForeignInstructionTest, StandsDirectlyInItsWorker) {
  EXPECT_FALSE(parse("foreign.note {\n%f0 = foreign.launch 0 0\n}\n", ""));
  EXPECT_THAT(errors, HasSubstr("must stand directly in an 'exec.worker'"));
}

TEST_F(ForeignInstructionTest, WaitsForInstructions) {
  exec::ProgramOp program = parse("%e = foreign.event\n"
                                  "%f0 = foreign.launch 0 0 after %e\n",
                                  "%f0 = compute 1F0\n");
  ASSERT_TRUE(program) << errors;
  EXPECT_TRUE(failed(loadProgram(program)));
  EXPECT_THAT(errors, HasSubstr("'foreign.launch' op waits for a token that no "
                                "instruction makes"));
}
