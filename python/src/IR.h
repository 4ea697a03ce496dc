//===- IR.h - Ops, blocks and values as objects of Python -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The objects of pipesched.ir. Every object keeps its context and the op that
// holds its memory. An op that was erased or that a pass may have replaced is
// forgotten: to use it raises an error. All of it needs the GIL.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_IR_H
#define PIPESCHED_PYTHON_SRC_IR_H

#include "Diagnostics.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <nanobind/stl/shared_ptr.h>

namespace pipesched::python::ir {

//===----------------------------------------------------------------------===//
// Contexts and objects with their lifetime
//===----------------------------------------------------------------------===//

class Op;
class Root;

struct Context {
  Context();
  mlir::MLIRContext context;
  /// The roots of ops that are in no block.
  llvm::DenseMap<mlir::Operation *, Root *> roots;
  /// The ops that Python has.
  llvm::DenseMap<mlir::Operation *, Op *> live;
  /// The ops on which passes of Python run now, the innermost last.
  llvm::SmallVector<mlir::Operation *, 1> inPasses;
  /// Whether a handler of diagnostics runs now.
  bool inHandler = false;
};
using ContextRef = std::shared_ptr<Context>;

/// An attribute, type or location with its context.
template <typename T>
struct Uniqued {
  ContextRef context;
  T value;
};
using Attr = Uniqued<mlir::Attribute>;
using Type = Uniqued<mlir::Type>;
using Location = Uniqued<mlir::Location>;

/// The object of the most special class that is bound.
nanobind::object toPython(const ContextRef &context, mlir::Attribute value);
nanobind::object toPython(const ContextRef &context, mlir::Type value);

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Owns an op that is in no block, and keeps the roots whose values are used
/// in it. Ops that use each other's values across two roots are never freed.
class Root : public std::enable_shared_from_this<Root> {
public:
  Root(ContextRef context, mlir::Operation *op);
  Root(const Root &) = delete;
  ~Root();

  const ContextRef context;
  mlir::Operation *get() const { return op; }
  /// Keeps another root, whose value is used.
  void use(const std::shared_ptr<Root> &other);
  /// After the op was put under another root, which owns it now.
  void mergeInto(Root &other);
  /// Erases the op, which has no uses.
  void destroy();

private:
  mlir::Operation *op;
  llvm::SmallVector<std::shared_ptr<Root>, 1> used;
};
using OpRef = std::shared_ptr<Op>;

/// An op, or a view of one by the class of its name.
class OpBase {
public:
  virtual ~OpBase() = default;
  virtual OpRef ref() const = 0;
};

/// It has one base class at its beginning, as nanobind assumes.
class Op : public OpBase, public std::enable_shared_from_this<Op> {
public:
  /// The object of an op.
  static OpRef of(Context &context, mlir::Operation *op);
  /// Takes an op that is in no block.
  static OpRef own(const ContextRef &context, mlir::Operation *op);
  Op(std::shared_ptr<Root> root, mlir::Operation *op);
  Op(const Op &) = delete;
  ~Op() override;

  OpRef ref() const override {
    return const_cast<Op *>(this)->shared_from_this();
  }
  mlir::Operation *get() const;
  bool isLive() const { return op != nullptr; }
  const ContextRef &context() const { return root->context; }
  OpRef other(mlir::Operation *op) const {
    return op ? of(*context(), op) : nullptr;
  }
  /// After a value of `other` is used in this op.
  void use(const Op &other) const { root->use(other.root); }

  /// Puts an op that is in no block before `before`, or at the end.
  void insertInto(const Op &owner, mlir::Block *block,
                  mlir::Operation *before) const;
  void detach() const;
  void erase() const;
  /// Forgets the ops inside.
  void forgetNested() const;

private:
  void useOperands() const;
  /// Lets `kept` keep the memory of the op and of all ops inside.
  void keepIn(const std::shared_ptr<Root> &kept) const;

  mutable std::shared_ptr<Root> root;
  mutable mlir::Operation *op; ///< null if it is forgotten
};

class OpView : public OpBase {
public:
  explicit OpView(OpRef op) : op(std::move(op)) {}
  OpRef ref() const override { return op; }

private:
  OpRef op;
};
/// A view of the class that is registered for the name of the op.
nanobind::object viewOf(const OpRef &op);

/// Raises an error with what MLIR says unless the op is right.
void verify(const Op &op, const char *error);
/// Raises an error if passes of Python run and may not change what is in `op`,
/// or erase or move `op` itself: MLIR lets a pass change the inside of its op.
void checkMayChangeInside(const Op &op);
void checkMayMove(const Op &op);
/// Returns the flags to print an op with its contents. MLIR verifies ops before
/// it prints them, which is not safe if they use a value of another tree: then
/// the flags ask for the generic form.
mlir::OpPrintingFlags flagsFor(mlir::Operation *op);

/// Reads text or bytecode of one op.
OpRef parseOp(std::string_view source, std::string_view name,
              ContextRef context);

/// A region or block, with the op that it is in.
struct Region {
  OpRef owner;
  unsigned index;
  mlir::Region &get() const { return owner->get()->getRegion(index); }
};
struct Block {
  OpRef owner;
  mlir::Block *block;
  mlir::Block *get() const;
};

/// A result of `owner`, or an argument of a block in `owner`.
struct Value {
  OpRef owner;
  mlir::Value value;
  mlir::Block *block; ///< null of results
  mlir::Value get() const;
};
struct OpResult : Value {};
struct BlockArgument : Value {};
nanobind::object toPython(const OpRef &any, mlir::Value value);

/// Before an op, or at the end of a block.
struct InsertionPoint {
  Block block;
  OpRef before;
  void insert(const Op &op) const;
};

//===----------------------------------------------------------------------===//
// Defaults and errors
//===----------------------------------------------------------------------===//

/// The defaults that a `with` has set.
struct Defaults {
  ContextRef context;
  std::optional<Location> location;
  std::optional<InsertionPoint> point;
};
/// The defaults of this thread, the innermost last.
std::vector<Defaults> &defaults();

/// Sets defaults in a `with`; unset fields stay if the context does.
void enter(Defaults entered);

/// The argument, or else the default. Raises an error if there is neither.
ContextRef contextOr(ContextRef given);
Location locationOr(const Location *given);

/// Raises an error if an argument of a call belongs to another context.
void checkContext(const ContextRef &context, const ContextRef &other);

/// Raises an error while a handler of diagnostics runs: MLIR must not get
/// another handler or diagnostic then.
void checkOutsideHandler(const Context &context);

/// Collects the errors of a context during its own lifetime.
class ErrorCapture {
public:
  explicit ErrorCapture(ContextRef context);
  ~ErrorCapture();
  ErrorCapture(const ErrorCapture &) = delete;
  /// Raises an MLIRError with them.
  [[noreturn]] void raise(const char *what);

private:
  ContextRef context;
  std::vector<mlir::Diagnostic> errors;
  mlir::DiagnosticEngine::HandlerID handler;
};

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

/// Gives a class `==` and a hash by the address that `key` returns.
template <typename Class, typename Key>
void bindEquality(Class &bound, Key key) {
  using T = typename Class::Type;
  bound
      .def(
          "__eq__",
          [key](const T &one, nanobind::handle other) {
            T *same = nullptr;
            return nanobind::try_cast(other, same) && same &&
                   key(one) == key(*same);
          },
          nanobind::arg("other").none())
      .def("__hash__",
           [key](const T &one) { return std::hash<const void *>()(key(one)); });
}

/// Makes a class a context manager; `toDefaults` returns its defaults.
template <typename Class, typename Convert>
void bindWith(Class &bound, const char *name, Convert toDefaults) {
  using T = typename Class::Type;
  std::string signature = "def __enter__(self) -> " + std::string(name);
  bound
      .def(
          "__enter__",
          [toDefaults](nanobind::handle self) {
            enter(toDefaults(nanobind::cast<T &>(self), self));
            return nanobind::borrow(self);
          },
          nanobind::sig(signature.c_str()))
      .def(
          "__exit__",
          [](nanobind::handle, nanobind::args) {
            if (!defaults().empty())
              defaults().pop_back();
          },
          nanobind::sig("def __exit__(self, *exception: object) -> None"));
}

/// Binds `current`, which `get` returns of the defaults if it is set.
template <typename Class, typename Get, typename Signature>
void bindCurrent(Class &bound, Get get, Signature signature) {
  bound.def_prop_ro_static(
      "current",
      [get](nanobind::handle) {
        return defaults().empty() ? decltype(get(defaults().back()))()
                                  : get(defaults().back());
      },
      signature);
}

/// An argument that may be left out or None.
inline auto none(const char *name) {
  return nanobind::arg(name).none() = nanobind::none();
}

void bindContext(nanobind::module_ &module);
void bindPasses(nanobind::module_ &module);
void bindOps(nanobind::module_ &module);

} // namespace pipesched::python::ir

#endif // PIPESCHED_PYTHON_SRC_IR_H
