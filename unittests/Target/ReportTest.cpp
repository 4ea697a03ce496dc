//===- ReportTest.cpp - Tests of the report ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Digits, names and keys of the report; the tests of the tools check its
// values.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Report.h"
#include "Results.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::test;

static llvm::json::Object reportOf(const NamedEvaluation &result) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, 2);
  writeReport(json, result);
  json.flush();
  return *llvm::cantFail(llvm::json::parse(text)).getAsObject();
}

TEST(Report, TwoByTwo) {
  llvm::json::Object report = reportOf(evaluate1F1B("s", 2, 2));
  EXPECT_EQ(report.getString("schedule"), "s");
  EXPECT_EQ(report.getInteger("stages"), 2);
  const llvm::json::Object &execution = *report.getObject("execution");
  EXPECT_EQ(execution.getInteger("makespan_ps"), 9000000);
  EXPECT_EQ(execution.getNumber("idle_ratio"), 1.0 / 3);
  EXPECT_EQ(execution.getInteger("messages"), 4);
  EXPECT_EQ(report.getObject("table")->getNumber("bubble_ratio"), 1.0 / 3);
  EXPECT_EQ(report.getObject("formula")->getNumber("bubble_ratio"), 1.0 / 3);
  EXPECT_TRUE(report.getNull("memory"));
}

TEST(Report, ProgramHasNoTableAndNoFormula) {
  NamedEvaluation program = evaluate1F1B("p", 2, 2);
  program.evaluation.table.reset();
  program.evaluation.formula.reset();
  program.evaluation.formulaReason = "because";
  llvm::json::Object report = reportOf(program);
  EXPECT_EQ(report.getString("kind"), "program");
  EXPECT_TRUE(report.getNull("table"));
  EXPECT_TRUE(report.getNull("formula"));
  EXPECT_EQ(report.getString("formula_reason"), "because");
  EXPECT_TRUE(report.getObject("execution")->getNull("receive_placement"));
}

/// Messages take 5 us twice in each direction, and nothing else waits.
TEST(Report, ExposedCommunication) {
  llvm::json::Object report =
      reportOf(evaluate1F1B("s", 2, 1, profileWithMessages()));
  const llvm::json::Object &execution = *report.getObject("execution");
  EXPECT_EQ(execution.getInteger("makespan_ps"), 70000000);
  EXPECT_EQ(execution.getInteger("exposed_communication_ps"), 10000000);
}

TEST(Report, NamesOfAnyBytes) {
  llvm::json::Object report = reportOf(evaluate1F1B("a\"b\n\xff", 1, 1));
  EXPECT_EQ(report.getString("schedule"), "a\"b\n\xEF\xBF\xBD");
}

TEST(Report, ExactAboveDoublePrecision) {
  CostInputs costs;
  costs.profile.emplace();
  costs.profile->phasePs[Phase::Forward] = {(int64_t(1) << 60) + 1};
  costs.profile->phasePs[Phase::Backward] = {2};
  llvm::json::Object report = reportOf(evaluate1F1B("s", 1, 1, costs));
  EXPECT_EQ(report.getObject("execution")->getInteger("makespan_ps"),
            (int64_t(1) << 60) + 3);
}
