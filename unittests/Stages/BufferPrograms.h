//===- BufferPrograms.h - Programs whose tensors get places -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules with functions of stages, for tests of buffers: only the types of
// their tensors matter.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_STAGES_BUFFERPROGRAMS_H
#define PIPESCHED_UNITTESTS_STAGES_BUFFERPROGRAMS_H

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/InitAll.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "gtest/gtest.h"

namespace pipesched {

struct BufferCase {
  std::string workers, microbatches;
  int64_t stages;
  std::string pipeline;
  bool isUniform = false; ///< all tensors have 64 bytes
};

/// The types of a stage's tensors: input, output, parameter and a residual.
struct StageTypes {
  std::string x, y, w, r;

  StageTypes(const BufferCase &given, int64_t stage)
      : x(typeOf(given, 3 * width(stage), "f32")),
        y(typeOf(given, 3 * width(stage + 1), "f32")),
        w(typeOf(given, 5 + stage, "f32")),
        r(typeOf(given, 7 * width(stage + 1) + 1, "f16")) {}

private:
  static int64_t width(int64_t stage) { return 4 + stage * 3 % 5; }
  static std::string typeOf(const BufferCase &given, int64_t elements,
                            const std::string &element) {
    if (given.isUniform)
      return "tensor<16xf32>";
    return "tensor<" + std::to_string(elements) + "x" + element + ">";
  }
};

inline std::string functionsOf(int64_t stage, const StageTypes &types) {
  auto [x, y, w, r] = types;
  std::string s = std::to_string(stage);
  auto constant = [](const std::string &name, const std::string &type) {
    return "  " + name + " = arith.constant dense<0.0> : " + type + "\n";
  };
  return "func.func @f" + s + "(%w: " + w + " {pipe.param}, %x: " + x +
         " {pipe.input}) -> (" + y + " {pipe.output}, " + r +
         " {pipe.residual = \"a\"}, " + x + " {pipe.residual = \"b\"}) {\n" +
         constant("%y", y) + constant("%r", r) + "  return %y, %r, %x : " + y +
         ", " + r + ", " + x + "\n}\n" + "func.func @i" + s + "(%dy: " + y +
         " {pipe.output_gradient}, %a: " + r +
         " {pipe.residual = \"a\"}) -> (" + x + " {pipe.input_gradient}, " + y +
         " {pipe.residual = \"dz\"}) {\n" + constant("%dx", x) +
         "  return %dx, %dy : " + x + ", " + y + "\n}\n" + "func.func @w" + s +
         "(%x: " + x + " {pipe.input}, %b: " + x +
         " {pipe.residual = \"b\"}, %dz: " + y +
         " {pipe.residual = \"dz\"}) -> (" + w + " {pipe.gradient}) {\n" +
         constant("%dw", w) + "  return %dw : " + w + "\n}\n" + "func.func @o" +
         s + "(%w: " + w + " {pipe.param}, %dw: " + w +
         " {pipe.gradient}) -> (" + w + " {pipe.param}) {\n  return %w : " + w +
         "\n}\n";
}

inline std::string moduleOf(const BufferCase &given) {
  std::string text, clauses;
  for (int64_t stage = 0; stage < given.stages; ++stage) {
    text += functionsOf(stage, StageTypes(given, stage));
    std::string s = std::to_string(stage);
    clauses += "  stage " + s + " forward @f" + s + " input_gradient @i" + s +
               " weight_gradient @w" + s + " update @o" + s + "\n";
  }
  std::string x = StageTypes(given, 0).x;
  std::string y = StageTypes(given, given.stages).x;
  text += "func.func @data() -> (" + x +
          " {pipe.input}) {\n  %x = arith.constant dense<1.0> : " + x +
          "\n  return %x : " + x + "\n}\n" + "func.func @loss(%y: " + y +
          " {pipe.output}) -> (tensor<f32> {pipe.loss}, " + y +
          " {pipe.output_gradient}) {\n"
          "  %l = arith.constant dense<0.0> : tensor<f32>\n"
          "  return %l, %y : tensor<f32>, " +
          y + "\n}\n";
  std::string path;
  for (int64_t worker = 0; worker < std::stoll(given.workers); ++worker)
    path += (worker ? ", " : "") + std::to_string(worker);
  return text + "pipe.schedule @p workers " + given.workers + " microbatches " +
         given.microbatches + " {\n  path on [" + path + "]\n" + clauses +
         "  data @data\n  loss @loss\n}\n";
}

/// Builds programs with buffers, and collects errors.
class BufferPrograms : public testing::TestWithParam<BufferCase> {
protected:
  BufferPrograms() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    static bool once = (registerAllPasses(), true);
    (void)once;
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      return mlir::success();
    });
  }

  /// Runs the passes of `given`, and then `assign`.
  mlir::OwningOpRef<mlir::ModuleOp>
  build(const BufferCase &given,
        const std::string &assign = "exec-assign-buffers") {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        moduleOf(given), mlir::ParserConfig(&context));
    EXPECT_TRUE(module) << errors;
    mlir::PassManager manager(&context);
    EXPECT_TRUE(succeeded(mlir::parsePassPipeline(
        given.pipeline + ",convert-pipe-to-exec," + assign, manager)));
    EXPECT_TRUE(succeeded(manager.run(*module))) << errors;
    return module;
  }

  mlir::MLIRContext context;
  std::string errors;
};

inline std::string nameOfCase(const testing::TestParamInfo<BufferCase> &info) {
  std::string name = info.param.pipeline + "_" + info.param.workers + "x" +
                     info.param.microbatches;
  for (char &letter : name)
    if (!llvm::isAlnum(letter))
      letter = '_';
  return name + "_" + std::to_string(info.index);
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_STAGES_BUFFERPROGRAMS_H
