//===- Check.cpp - Compares a run with the unpipelined model --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares a parameter on each worker that holds it. Losses, which a worker has
// only for its own microbatches, are merged first.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/Check.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace pipesched;
using namespace pipesched::run;

using Numbers = std::vector<double>;

static Numbers numbersOf(const PersistentTensor &tensor, const Memory &block) {
  Numbers numbers;
  forEachNumber(tensor, block, [&](double x) { numbers.push_back(x); });
  return numbers;
}

static bool hasNaN(const Numbers &numbers) {
  return llvm::any_of(numbers, [](double x) { return std::isnan(x); });
}

/// Returns the largest difference relative to the largest wanted number;
/// infinite if one or both are NaN, because a NaN proves nothing about a
/// schedule.
static double errorOf(const Numbers &found, const Numbers &wanted) {
  double largest = 0, difference = 0;
  for (auto [a, b] : llvm::zip_equal(found, wanted)) {
    largest = std::max(largest, std::abs(b));
    if (a != b)
      difference = std::max(difference,
                            std::isfinite(a - b) ? std::abs(a - b) : HUGE_VAL);
  }
  return difference == 0 ? 0 : difference / (largest > 0 ? largest : 1);
}

namespace {

struct KindResult {
  int64_t numTensors = 0, numEqual = 0;
  double error = 0;
  std::string farthest, firstNaN;

  void add(double other, bool isEqual, bool isNaN, const std::string &name) {
    ++numTensors;
    numEqual += isEqual;
    if (isNaN && firstNaN.empty())
      firstNaN = name;
    if (other > error) {
      error = other;
      farthest = name;
    }
  }
};

class Checker {
public:
  Checker(const PreparedProgram &program, llvm::ArrayRef<Memory> workers,
          const PersistentLayout &model, const Memory &reference)
      : program(program), workers(workers), model(model), reference(reference) {
  }

  KindResult check(PersistentKind kind) const;

private:
  bool sumsReplicas() const;
  void checkOnWorkers(const PersistentTensor &tensor, KindResult &result) const;
  void checkSum(const PersistentTensor &tensor, KindResult &result) const;
  template <typename Handle>
  void forEachHolder(const PersistentTensor &tensor, Handle handle) const;

  const PreparedProgram &program;
  llvm::ArrayRef<Memory> workers;
  const PersistentLayout &model;
  const Memory &reference;
};

} // namespace

bool Checker::sumsReplicas() const {
  return llvm::any_of(program.loaded.program.instructions,
                      [](const Instruction &instruction) {
                        return instruction.is(InstructionKind::AllReduce);
                      });
}

template <typename Handle>
void Checker::forEachHolder(const PersistentTensor &tensor,
                            Handle handle) const {
  for (auto [worker, layout] : llvm::enumerate(program.layouts))
    if (const PersistentTensor *held =
            layout.find(tensor.kind, tensor.stage, tensor.index))
      handle(worker, *held);
}

void Checker::checkOnWorkers(const PersistentTensor &tensor,
                             KindResult &result) const {
  Numbers wanted = numbersOf(tensor, reference);
  forEachHolder(tensor, [&](int64_t worker, const PersistentTensor &held) {
    bool isEqual = reference.bytesOf(tensor) == workers[worker].bytesOf(held);
    Numbers found = numbersOf(held, workers[worker]);
    result.add(errorOf(found, wanted), isEqual, hasNaN(found) || hasNaN(wanted),
               llvm::formatv("{0} on worker {1}", describe(tensor), worker));
  });
}

void Checker::checkSum(const PersistentTensor &tensor,
                       KindResult &result) const {
  Numbers wanted = numbersOf(tensor, reference), sum(wanted.size());
  forEachHolder(tensor, [&](int64_t worker, const PersistentTensor &held) {
    for (auto [total, x] :
         llvm::zip_equal(sum, numbersOf(held, workers[worker])))
      total += x;
  });
  result.add(errorOf(sum, wanted), sum == wanted, hasNaN(sum) || hasNaN(wanted),
             describe(tensor));
}

KindResult Checker::check(PersistentKind kind) const {
  KindResult result;
  bool isSum = kind == PersistentKind::Loss ||
               (kind == PersistentKind::Gradient && !sumsReplicas());
  for (const PersistentTensor &tensor : model.tensors)
    if (tensor.kind == kind && isSum)
      checkSum(tensor, result);
    else if (tensor.kind == kind)
      checkOnWorkers(tensor, result);
  return result;
}

bool run::checkRun(const PreparedProgram &program,
                   llvm::ArrayRef<Memory> workers,
                   const PersistentLayout &model, const Memory &reference,
                   double tolerance, int64_t numSteps, llvm::raw_ostream &os) {
  Checker checker(program, workers, model, reference);
  bool holds = true;
  os << "check: after step " << numSteps - 1
     << ", beside the unpipelined model\n";
  os << "               tensors  equal bits  largest relative error\n";
  for (auto [kind, name] : {std::pair(PersistentKind::Loss, "losses"),
                            std::pair(PersistentKind::Gradient, "gradients"),
                            std::pair(PersistentKind::Param, "parameters"),
                            std::pair(PersistentKind::State, "states")}) {
    KindResult result = checker.check(kind);
    if (result.numTensors == 0)
      continue;
    bool isClose = result.error <= tolerance;
    holds &= isClose;
    os << llvm::format("  %-11s  %7lld  %10lld  %.2e", name,
                       static_cast<long long>(result.numTensors),
                       static_cast<long long>(result.numEqual), result.error);
    if (!result.farthest.empty())
      os << " (" << result.farthest << ")";
    os << (isClose ? "" : " too large");
    if (!result.firstNaN.empty())
      os << "; " << result.firstNaN << " holds NaN";
    os << "\n";
  }
  os << (holds ? "check: passed" : "check: FAILED")
     << llvm::format(", tolerance %.0e\n", tolerance);
  return holds;
}
