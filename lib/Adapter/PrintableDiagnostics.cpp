//===- PrintableDiagnostics.cpp - IR and errors on a terminal -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's driver of optimizers creates its contexts and source managers itself;
// we can only pass it the text and the registry. So lines are made printable in
// the text, and messages by a handler that a dialect adds.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Support/PrintableText.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Whether the input is plain ASCII without carriage returns. Most inputs are;
/// they may be large, so they are not copied.
static bool isPlain(StringRef text) {
  return llvm::all_of(text, [](char byte) {
    return byte == '\n' || byte == '\t' || (byte >= ' ' && byte < 0x7f);
  });
}

std::unique_ptr<llvm::MemoryBuffer>
pipesched::makePrintableIR(llvm::MemoryBufferRef ir) {
  if (isBytecode(ir) ||
      (isPlain(ir.getBuffer()) && isPlain(ir.getBufferIdentifier())))
    return nullptr;
  constexpr llvm::StringLiteral kMark = "\xEF\xBB\xBF";
  StringRef text = ir.getBuffer(), name = ir.getBufferIdentifier();
  std::string printable = text.starts_with(kMark) ? "   " : "";
  if (!printable.empty())
    text = text.drop_front(kMark.size());
  printable += escapeHidden(text);
  std::string printableName = printableText(name);
  if (printable == ir.getBuffer() && printableName == name)
    return nullptr;
  return llvm::MemoryBuffer::getMemBufferCopy(printable, printableName);
}

bool pipesched::mayHideText(llvm::MemoryBufferRef ir) {
  if (isBytecode(ir))
    return true;
  StringRef text = ir.getBuffer();
  for (size_t at = text.find('\\'); at != StringRef::npos;
       at = text.find('\\', at + 1)) {
    uint8_t byte = 0;
    StringRef digits = text.substr(at + 1, 2);
    if (!digits.getAsInteger(16, byte) && !llvm::isPrint(byte))
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// The location with printable names of files.
static Location makePrintable(Location location) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](FileLineColRange place) -> Attribute {
    std::string name = printableText(place.getFilename());
    if (name == place.getFilename())
      return place;
    return FileLineColLoc::get(place.getContext(), name, place.getStartLine(),
                               place.getStartColumn());
  });
  return cast<LocationAttr>(replacer.replace(LocationAttr(location)));
}

static void makePrintable(Diagnostic &diagnostic) {
  Diagnostic printable(makePrintable(diagnostic.getLocation()),
                       diagnostic.getSeverity());
  printable << printableLines(diagnostic.str());
  for (const Diagnostic &note : diagnostic.getNotes())
    printable.attachNote(makePrintable(note.getLocation()))
        << printableLines(note.str());
  diagnostic = std::move(printable);
}

void pipesched::makeDiagnosticsPrintable(MLIRContext &context) {
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    makePrintable(diagnostic);
    return failure(); // the next handler shows it
  });
}

void pipesched::makeDiagnosticsPrintable(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, DLTIDialect *) {
    makeDiagnosticsPrintable(*context);
  });
}

void pipesched::makeLinesPrintable(llvm::SourceMgr &sources) {
  sources.setDiagHandler([](const llvm::SMDiagnostic &found, void *) {
    std::string file = printableText(found.getFilename());
    std::string line = escapeHidden(found.getLineContents());
    llvm::SMDiagnostic(*found.getSourceMgr(), found.getLoc(), file,
                       found.getLineNo(), found.getColumnNo(), found.getKind(),
                       printableLines(found.getMessage()), line,
                       found.getRanges(), found.getFixIts())
        .print(/*ProgName=*/nullptr, llvm::errs());
  });
}
