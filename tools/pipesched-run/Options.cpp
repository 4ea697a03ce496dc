//===- Options.cpp - Command line of pipesched-run ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of families come from the list of family options.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/OutputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include <cmath>

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;

static constexpr int64_t kMaxTimeout = 1'000'000'000;

Options::Options() {
  for (const FamilyOptionInfo &info : familyOptions())
    familyValues.push_back(std::make_unique<cl::opt<std::string>>(
        StringRef(info.name), cl::cat(category), cl::value_desc(info.values),
        cl::desc(StringRef(info.summary))));
}

static std::string optionName(const cl::Option &option) {
  return (option.ArgStr.size() == 1 ? "-" : "--") + option.ArgStr.str();
}

llvm::Expected<FamilyOptions>
Options::familyOptionsFor(const Family &family) const {
  FamilyOptions options;
  for (auto [info, value] : llvm::zip(familyOptions(), familyValues)) {
    if (value->getNumOccurrences() == 0)
      continue;
    if (!family.takes(info.option))
      return makeError("--" + info.name + ": " + family.name +
                       " has no such option");
    if (llvm::Error error = setOption(options, info.name, *value))
      return makeError("--" + info.name + ": " +
                       llvm::toString(std::move(error)));
  }
  return options;
}

/// Checks that no file is written twice, and that the input is not overwritten.
llvm::Error Options::checkFiles() const {
  const cl::opt<std::string> *written[] = {&trace, &writeProfile,
                                           &writeMeasurement, &output};
  for (const auto *file : written)
    if (!file->empty() && isSameFile(*file, input))
      return makeError(optionName(*file) + " names the file that is read, '" +
                       file->getValue() + "'");
  for (const auto *file : {&writeProfile, &writeMeasurement})
    for (const auto *other : {&trace, &writeProfile})
      if (file != other && !other->empty() && isSameFile(*other, *file))
        return makeError(optionName(*other) + " and " + optionName(*file) +
                         " name the same file");
  return llvm::Error::success();
}

/// Refuses options for results of a run, because code is written without a run.
llvm::Error Options::checkEmit() const {
  const cl::Option *results[] = {
      &checks,           &tolerance,      &trace,  &writeProfile,
      &writeMeasurement, &saveParameters, &timeout};
  for (const cl::Option *option : results)
    if (emit != Emit::Nothing && option->getNumOccurrences() > 0)
      return makeError(optionName(*option) + " belongs to runs, and --emit=" +
                       enumName(emit.getValue()) + " runs nothing");
  if (emit != Emit::Nothing && !blas.empty())
    return makeError("--blas belongs to runs; a program reads the environment "
                     "variable PIPESCHED_BLAS when it starts");
  if (emit != Emit::Nothing && !profile.empty() && !pace)
    return makeError("--profile belongs to runs and to --pace");
  return llvm::Error::success();
}

llvm::Error Options::check() const {
  auto found = [](auto &option) { return llvm::Twine(option.getValue()); };
  if (steps < 1)
    return makeError("--steps: expected 1 or more, found " + found(steps));
  if (timeout < 0 || timeout > kMaxTimeout)
    return makeError("--timeout: expected 0 to " + llvm::Twine(kMaxTimeout) +
                     " seconds, found " + found(timeout));
  for (const auto *option : {&workers, &microbatches})
    if (*option < 0 || (option->getNumOccurrences() > 0 && *option == 0))
      return makeError("--" + option->ArgStr + ": expected 1 or more, found " +
                       found(*option));
  if (!(tolerance >= 0) || std::isinf(tolerance))
    return makeError("--tolerance: expected a number from 0, found " +
                     llvm::Twine(std::to_string(tolerance)));
  if (schedule.empty()) {
    for (const auto *option : {&workers, &microbatches})
      if (option->getNumOccurrences() > 0)
        return makeError("--" + option->ArgStr +
                         " belongs to --schedule=<family>, which is missing");
    for (const auto &value : familyValues)
      if (value->getNumOccurrences() > 0)
        return makeError("--" + value->ArgStr +
                         " belongs to --schedule=<family>, which is missing");
  }
  if (pace && (emit == Emit::Llvm || emit == Emit::Object))
    return makeError("--pace belongs to runs and to --emit=executable");
  if (llvm::Error error = checkEmit())
    return error;
  if (output.getNumOccurrences() > 0 && emit == Emit::Nothing)
    return makeError("-o belongs to --emit=<kind>, which is missing");
  if (llvm::Error error = checkFiles())
    return error;
  if (emit == Emit::Executable && output == "-")
    return makeError("--emit=executable needs -o <file>");
  return llvm::Error::success();
}
