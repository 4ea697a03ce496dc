//===- SpecFields.h - Attributes of named fields ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of a system are lists of named fields of known kinds. Each
// attribute has one table, which drives its parser, printer and verifier.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DIALECT_PIPE_IR_SPECFIELDS_H
#define PIPESCHED_LIB_DIALECT_PIPE_IR_SPECFIELDS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

namespace pipesched::pipe {

enum class FieldKind {
  Text,    ///< StringAttr
  Flag,    ///< BoolAttr
  Count,   ///< i64 above 0
  Latency, ///< i64 of at least 0
  Curve,   ///< EfficiencyAttr
  Engine,  ///< EngineSpecAttr
  Link,    ///< LinkSpecAttr
  Rates,   ///< ArrayAttr of AttentionRatesAttr
  Sizes    ///< StringAttr, or DenseI64ArrayAttr of at least one size
};

struct Field {
  llvm::StringRef name;
  FieldKind kind;
  bool isRequired;
};

/// Fields of a link inside a worker, and of the network between workers.
inline constexpr Field kLinkFields[] = {
    {"bytes_per_s", FieldKind::Count, true},
    {"latency_ps", FieldKind::Latency, false},
    {"efficiency", FieldKind::Curve, false},
};

/// Values of fields in the order of their table; null: absent.
using FieldValues = llvm::SmallVector<mlir::Attribute, 10>;

const Field *findField(llvm::ArrayRef<Field> table, llvm::StringRef name);

/// Returns "unknown field 'x' in worker_spec, the closest is 'y'".
std::string unknownField(llvm::ArrayRef<Field> table, llvm::StringRef what,
                         llvm::StringRef name);

bool hasKind(mlir::Attribute value, FieldKind kind);

/// Parses `<name = value, ...>`, in any order. Errors, each at its place: an
/// unknown, repeated or missing field; a wrong value.
mlir::FailureOr<FieldValues> parseFields(mlir::AsmParser &parser,
                                         llvm::ArrayRef<Field> table,
                                         llvm::StringRef what);

/// Prints fields for parseFields. Values of this dialect have no `#pipe.`
/// prefix.
void printFields(
    mlir::AsmPrinter &printer,
    llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Attribute>> fields);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_DIALECT_PIPE_IR_SPECFIELDS_H
