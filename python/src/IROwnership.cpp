//===- IROwnership.cpp - Owners of the memory of ops ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who owns what: a Root owns an op that is in no block, and every object of
// Python keeps the Root that its memory belongs to.
//
//===----------------------------------------------------------------------===//

#include "IR.h"
#include "mlir/IR/Verifier.h"

namespace nb = nanobind;
namespace ir = pipesched::python::ir;
using namespace pipesched::python;
using namespace pipesched::python::ir;

//===----------------------------------------------------------------------===//
// Ownership
//===----------------------------------------------------------------------===//

Root::Root(ContextRef context, mlir::Operation *op)
    : context(std::move(context)), op(op) {
  this->context->roots[op] = this;
}

Root::~Root() { destroy(); }

void Root::destroy() {
  if (!op)
    return;
  context->roots.erase(op);
  std::exchange(op, nullptr)->destroy();
}

void Root::use(const std::shared_ptr<Root> &other) {
  if (other.get() != this && !llvm::is_contained(used, other))
    used.push_back(other);
}

void Root::mergeInto(Root &other) {
  context->roots.erase(op);
  op = nullptr;
  for (const std::shared_ptr<Root> &kept : used)
    other.use(kept);
  llvm::erase_if(other.used, [&](auto &kept) { return kept.get() == this; });
  used.assign(1, other.shared_from_this());
}

/// Calls `visit` for the results of the ops in `op` and the arguments of
/// blocks.
static void forEachValue(mlir::Operation *op,
                         llvm::function_ref<void(mlir::Value)> visit) {
  op->walk([&](mlir::Operation *nested) {
    llvm::for_each(nested->getResults(), visit);
    for (mlir::Region &region : nested->getRegions())
      for (mlir::Block &block : region)
        llvm::for_each(block.getArguments(), visit);
  });
}

/// The ops outside of `op` that use values inside.
static llvm::SmallVector<mlir::Operation *> usersOutside(mlir::Operation *op) {
  llvm::SmallVector<mlir::Operation *> users;
  forEachValue(op, [&](mlir::Value value) {
    for (mlir::Operation *user : value.getUsers())
      if (!op->isAncestor(user))
        users.push_back(user);
  });
  return users;
}

static mlir::Operation *topOf(mlir::Operation *op) {
  while (mlir::Operation *parent = op->getParentOp())
    op = parent;
  return op;
}

/// The op that holds the memory of a value.
static mlir::Operation *holderOf(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  return op ? op : value.getParentBlock()->getParentOp();
}

Op::Op(std::shared_ptr<Root> root, mlir::Operation *op)
    : root(std::move(root)), op(op) {
  context()->live[op] = this;
}

Op::~Op() {
  if (op)
    context()->live.erase(op);
}

OpRef Op::of(Context &context, mlir::Operation *op) {
  if (Op *known = context.live.lookup(op))
    return known->shared_from_this();
  Root *root = context.roots.at(topOf(op));
  return std::make_shared<Op>(root->shared_from_this(), op);
}

OpRef Op::own(const ContextRef &context, mlir::Operation *op) {
  OpRef owned = std::make_shared<Op>(std::make_shared<Root>(context, op), op);
  owned->useOperands();
  return owned;
}

void Op::useOperands() const {
  get()->walk([&](mlir::Operation *nested) {
    for (mlir::Value operand : nested->getOperands())
      if (!op->isAncestor(holderOf(operand)))
        use(*other(holderOf(operand)));
  });
}

mlir::Operation *Op::get() const {
  if (!op)
    throw std::runtime_error("the operation has been invalidated");
  return op;
}

void Op::keepIn(const std::shared_ptr<Root> &kept) const {
  get()->walk([&](mlir::Operation *nested) {
    if (Op *known = context()->live.lookup(nested); known && known != this)
      known->root = kept;
  });
  root = kept;
}

static void checkInPasses(const Op &op, bool isInside) {
  for (mlir::Operation *running : op.context()->inPasses)
    if (topOf(op.get()) == topOf(running) &&
        !running->isProperAncestor(op.get()) &&
        !(isInside && op.get() == running))
      throw std::runtime_error("a pass can change only what is inside of the "
                               "operation that it runs on");
}

void ir::checkMayChangeInside(const Op &op) { checkInPasses(op, true); }
void ir::checkMayMove(const Op &op) { checkInPasses(op, false); }

void Op::insertInto(const Op &owner, mlir::Block *block,
                    mlir::Operation *before) const {
  checkContext(context(), owner.context());
  checkMayChangeInside(owner);
  if (get()->getBlock())
    throw nb::value_error(
        "Attempt to insert operation that is already attached");
  if (get()->isAncestor(owner.get()))
    throw nb::value_error("Attempt to insert operation into itself");
  block->getOperations().insert(before ? before->getIterator() : block->end(),
                                get());
  root->mergeInto(*owner.root);
  keepIn(owner.root);
}

void Op::detach() const {
  if (!get()->getBlock())
    throw nb::value_error("Detached operation has no parent.");
  checkMayMove(*this);
  std::shared_ptr<Root> former = root;
  get()->remove();
  keepIn(std::make_shared<Root>(context(), get()));
  useOperands();
  for (mlir::Operation *user : usersOutside(op))
    other(user)->use(*this);
}

void Op::forgetNested() const {
  mlir::Operation *kept = get();
  llvm::DenseMap<mlir::Operation *, Op *> &live = context()->live;
  kept->walk([&](mlir::Operation *nested) {
    if (nested == kept)
      return;
    if (Op *known = live.lookup(nested)) {
      live.erase(nested);
      known->op = nullptr;
    }
  });
}

void Op::erase() const {
  checkMayMove(*this);
  if (!usersOutside(get()).empty())
    throw nb::value_error("Attempt to erase operation whose results are used");
  forgetNested();
  mlir::Operation *erased = op;
  context()->live.erase(erased);
  op = nullptr;
  if (erased->getBlock())
    return erased->erase();
  root->destroy();
}

mlir::Block *ir::Block::get() const {
  for (mlir::Region &region : owner->get()->getRegions())
    for (mlir::Block &kept : region)
      if (&kept == block)
        return block;
  throw std::runtime_error("the block has been invalidated");
}

mlir::Value ir::Value::get() const {
  owner->get();
  if (block &&
      !llvm::is_contained(Block{owner, block}.get()->getArguments(), value))
    throw std::runtime_error("the value has been invalidated");
  return value;
}

nb::object ir::toPython(const OpRef &any, mlir::Value value) {
  OpRef holder = any->other(holderOf(value));
  if (llvm::isa<mlir::OpResult>(value))
    return nb::cast(OpResult{{holder, value, nullptr}});
  return nb::cast(BlockArgument{{holder, value, value.getParentBlock()}});
}

void ir::InsertionPoint::insert(const Op &op) const {
  mlir::Block *target = block.get();
  if (before && before->get()->getBlock() != target)
    throw std::runtime_error("the insertion point has been invalidated");
  op.insertInto(*block.owner, target, before ? before->get() : nullptr);
}

//===----------------------------------------------------------------------===//
// Verifying and printing
//===----------------------------------------------------------------------===//

/// An op of the same tree that uses a value which is in no block of it.
static mlir::Operation *findStrayUse(mlir::Operation *op) {
  mlir::Operation *top = topOf(op), *found = nullptr;
  top->walk([&](mlir::Operation *nested) {
    for (mlir::Value operand : nested->getOperands())
      if (holderOf(operand) == nested || !operand.getParentBlock() ||
          topOf(holderOf(operand)) != top)
        found = nested;
    return found ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return found;
}

void ir::verify(const Op &op, const char *error) {
  ErrorCapture errors(op.context());
  mlir::Operation *stray = findStrayUse(op.get());
  if (stray)
    mlir::emitError(stray->getLoc())
        << "'" << stray->getName()
        << "' op uses a value of an operation that is elsewhere";
  if (stray || failed(mlir::verify(op.get())))
    errors.raise(error);
}

mlir::OpPrintingFlags ir::flagsFor(mlir::Operation *op) {
  mlir::OpPrintingFlags flags;
  if (findStrayUse(op))
    flags.printGenericOpForm();
  return flags;
}
