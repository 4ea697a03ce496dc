//===- TextTranslation.cpp - Pictures in the terminal for the tool --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects schedule ops to writeTextPictures: options, and the properties of
// the terminal.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Target/TextPicture.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "SlotTables.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace pipesched;

namespace {
enum class ColourChoice { Auto, Always, Never };
} // namespace

namespace pipesched {
template <>
struct EnumNames<ColourChoice> {
  static constexpr EnumName<ColourChoice> values[] = {
      {ColourChoice::Auto, "auto", "on a terminal, unless NO_COLOR is set"},
      {ColourChoice::Always, "always", "ANSI colours"},
      {ColourChoice::Never, "never", "letters only"}};
};
} // namespace pipesched

namespace {

struct TextOptions {
  llvm::cl::opt<ColourChoice> colour{
      "text-color", llvm::cl::desc("Whether --export-text has colours"),
      enumOptionValuesWithDefault<ColourChoice::Auto>(),
      llvm::cl::init(ColourChoice::Auto)};
  llvm::cl::opt<unsigned> width{
      "text-width",
      llvm::cl::desc("Columns of --export-text, 0 for as many as it takes "
                     "(default: those of the terminal, else 120)"),
      llvm::cl::value_desc("columns")};
  llvm::cl::opt<std::string> slots{
      "text-slots",
      llvm::cl::desc("Slots that --export-text draws, ':' for all (default: "
                     "the first and the last panels)"),
      llvm::cl::value_desc("begin:end")};
  llvm::cl::opt<std::string> workers{
      "text-workers",
      llvm::cl::desc("Workers that --export-text draws, ':' for all (default: "
                     "the first and the last 16)"),
      llvm::cl::value_desc("begin:end")};
};

} // namespace

/// Created at the first registration; LLVM requires options to outlive parsing.
static TextOptions &textOptions() {
  static TextOptions instance;
  return instance;
}

/// NO_COLOR counts if it is set and not empty (https://no-color.org).
static bool wantsColours(const raw_ostream &os) {
  if (textOptions().colour != ColourChoice::Auto)
    return textOptions().colour == ColourChoice::Always;
  std::optional<std::string> noColour = llvm::sys::Process::GetEnv("NO_COLOR");
  return os.has_colors() && (!noColour || noColour->empty());
}

static int64_t widthOf(const raw_ostream &os) {
  if (textOptions().width.getNumOccurrences() > 0)
    return textOptions().width;
  unsigned columns =
      os.is_displayed() ? llvm::sys::Process::StandardOutColumns() : 0;
  return columns > 0 ? columns : TextPictureOptions::kDefaultWidth;
}

/// Reads a range; errors name the option.
static LogicalResult readRange(Operation *root,
                               const llvm::cl::opt<std::string> &option,
                               std::optional<TextRange> &range) {
  if (option.getNumOccurrences() == 0)
    return success();
  llvm::Expected<TextRange> read = parseTextRange(option);
  if (!read)
    return emitError(root->getLoc())
           << "--" << option.ArgStr << ": " << llvm::toString(read.takeError());
  range = *read;
  return success();
}

static LogicalResult exportText(Operation *root, raw_ostream &os) {
  TextPictureOptions picture;
  picture.width = widthOf(os);
  picture.hasColours = wantsColours(os);
  if (failed(readRange(root, textOptions().slots, picture.slots)) ||
      failed(readRange(root, textOptions().workers, picture.workers)))
    return failure();
  FailureOr<std::vector<NamedTable>> tables = loadSlotTables(root);
  if (failed(tables))
    return failure();
  if (llvm::Error error = writeTextPictures(os, pointersTo(*tables), picture))
    return root->emitOpError(llvm::toString(std::move(error)));
  return success();
}

void pipesched::registerTextTranslations() {
  textOptions();
  registerExport("export-text", "schedules as tables in the terminal",
                 exportText);
}
