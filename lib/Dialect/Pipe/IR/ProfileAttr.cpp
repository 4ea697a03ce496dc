//===- ProfileAttr.cpp - Measured times as an attribute -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores the canonical text; Facts/ProfileText.h has the grammar.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Facts/ProfileText.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

Attribute ProfileAttr::parse(AsmParser &parser, Type) {
  std::string text;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseString(&text))
    return {};
  llvm::Expected<Profile> profile = parseProfile(text);
  if (!profile) {
    parser.emitError(loc) << llvm::toString(profile.takeError());
    return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), *profile);
}

void ProfileAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getTimes() << "\">";
}

/// profile_c1, profile_c2. The text must also be in canonical form.
LogicalResult ProfileAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  StringRef times) {
  llvm::Expected<Profile> profile = parseProfile(times);
  if (!profile)
    return emitError() << llvm::toString(profile.takeError());
  if (std::string canonical = printProfile(*profile); canonical != times)
    return emitError() << "expected the times '" << canonical << "', found '"
                       << times << "'";
  return success();
}

ProfileAttr ProfileAttr::get(MLIRContext *context, const Profile &profile) {
  return get(context, printProfile(profile));
}

Profile ProfileAttr::toFacts() const {
  return llvm::cantFail(parseProfile(getTimes()));
}
