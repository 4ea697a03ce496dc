//===- InLanes.h - One walk for many scenarios ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Distributes scenarios of one table over walks with several lanes. The results
// equal the results of single walks.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_INLANES_H
#define PIPESCHED_LIB_ANALYSIS_WALK_INLANES_H

#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/Schedule/Walk/Lanes.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <tuple>

namespace pipesched {

/// Asks the question for scenarios of one transport, up to 16 or 8 at a time.
/// See askInLanes.
template <typename Question>
void askSideBySide(
    const Question &question, llvm::ArrayRef<WalkInputs> scenarios,
    llvm::MutableArrayRef<std::optional<typename Question::Answer>> answers) {
  // With this many scenarios or more, one walk with twice the lanes takes less
  // time than two walks.
  constexpr size_t kFewestFor16 = 9, kFewestFor8 = 3;
  for (size_t begin = 0, count; begin != scenarios.size(); begin += count) {
    size_t left = scenarios.size() - begin;
    count = left >= kFewestFor16  ? std::min<size_t>(left, 16)
            : left >= kFewestFor8 ? std::min<size_t>(left, 8)
                                  : 1;
    auto some = scenarios.slice(begin, count);
    auto found = answers.slice(begin, count);
    if (left >= kFewestFor16)
      question.template ask<Lanes<16>>(some, found);
    else if (left >= kFewestFor8)
      question.template ask<Lanes<8>>(some, found);
    else
      question.template ask<int64_t>(some, found);
    for (size_t i = 0; i != count; ++i)
      if (found[i] && question.makespanOf(*found[i]) >= kExactPs)
        question.template ask<int64_t>(some.slice(i, 1), found.slice(i, 1));
  }
}

/// Returns the answers of `question` for each scenario, in their order.
/// Scenarios of one transport share walks, one in each lane. The question has
/// these members:
///
///   Answer
///   template <typename Time>
///   void ask(llvm::ArrayRef<WalkInputs>,
///            llvm::MutableArrayRef<std::optional<Answer>>) const
///       for at most as many scenarios as Time has lanes; all answers are
///       absent if the walk does not reach the end
///   int64_t makespanOf(const Answer &) const
template <typename Question>
std::vector<std::optional<typename Question::Answer>>
askInLanes(const Question &question, llvm::ArrayRef<WalkInputs> scenarios) {
  auto kindOf = [&](size_t number) {
    const WalkInputs &scenario = scenarios[number];
    return std::tuple(scenario.transport, scenario.mayLeap);
  };
  std::vector<size_t> order(scenarios.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::tuple(kindOf(a), a) < std::tuple(kindOf(b), b);
  });
  std::vector<WalkInputs> ordered;
  for (size_t number : order)
    ordered.push_back(scenarios[number]);
  std::vector<std::optional<typename Question::Answer>> found(order.size());
  llvm::MutableArrayRef<std::optional<typename Question::Answer>> left = found;
  while (!left.empty()) {
    size_t begin = found.size() - left.size(), count = 1;
    while (count != left.size() &&
           kindOf(order[begin]) == kindOf(order[begin + count]))
      ++count;
    askSideBySide(question, llvm::ArrayRef(ordered).slice(begin, count),
                  left.take_front(count));
    left = left.drop_front(count);
  }
  std::vector<std::optional<typename Question::Answer>> answers(order.size());
  for (auto [number, answer] : llvm::zip_equal(order, found))
    answers[number] = std::move(answer);
  return answers;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_INLANES_H
