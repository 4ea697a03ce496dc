//===- IROps.cpp - Ops, their views and values ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds ops and what belongs to them. A view is an object of the class that is
// registered for the name of its op.
//
//===----------------------------------------------------------------------===//

#include "IR.h"
#include "mlir/IR/BuiltinOps.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
namespace ir = pipesched::python::ir;
using namespace pipesched::python;
using namespace pipesched::python::ir;

//===----------------------------------------------------------------------===//
// Attributes of ops
//===----------------------------------------------------------------------===//

static mlir::DictionaryAttr propertiesOf(mlir::Operation *op) {
  return llvm::dyn_cast_or_null<mlir::DictionaryAttr>(
      op->getPropertiesAsAttribute());
}

/// The properties of an op and its other attributes.
static mlir::NamedAttrList attributesOf(mlir::Operation *op) {
  mlir::NamedAttrList found(op->getDiscardableAttrDictionary());
  if (mlir::DictionaryAttr properties = propertiesOf(op))
    found.append(properties);
  return found;
}

static nb::dict dictOf(const Op &op) {
  nb::dict dict;
  for (mlir::NamedAttribute entry : attributesOf(op.get()))
    dict[toValid(entry.getName().getValue()).c_str()] =
        toPython(op.context(), entry.getValue());
  return dict;
}

/// Sets a property, inherent or other attribute. Errors: the op takes no such
/// attribute under this name; then it is not changed.
static void setAttribute(const Op &self, llvm::StringRef name,
                         const Attr &attribute) {
  mlir::Operation *op = self.get();
  checkContext(self.context(), attribute.context);
  auto key = mlir::StringAttr::get(op->getContext(), name);
  mlir::DictionaryAttr properties = propertiesOf(op);
  bool isInherent = op->getInherentAttr(name).has_value();
  if (!isInherent && !(properties && properties.contains(key)))
    return op->setDiscardableAttr(key, attribute.value);
  mlir::NamedAttrList changed(properties);
  changed.set(key, attribute.value);
  ErrorCapture errors(self.context());
  auto emit = [&] { return op->emitError() << "'" << name << "': "; };
  if (failed(op->setPropertiesFromAttribute(
          changed.getDictionary(op->getContext()), emit)))
    errors.raise("Unable to set attribute");
}

static void removeAttribute(const Op &self, const std::string &name) {
  mlir::Operation *op = self.get();
  if (!attributesOf(op).get(name))
    throw nb::key_error("attempt to delete a non-existent attribute");
  if (!op->removeAttr(name))
    throw nb::value_error("the attribute is a property, which has a value");
}

struct OpAttributeMap {
  OpRef op;
};

static void bindAttributeMap(nb::module_ &m) {
  using Map = OpAttributeMap;
  auto view = [](const char *name) {
    return [name](const Map &self) { return dictOf(*self.op).attr(name)(); };
  };
  nb::class_<Map>(m, "OpAttributeMap")
      .def("__len__", [](const Map &self) { return dictOf(*self.op).size(); })
      .def("__contains__",
           [](const Map &self, const std::string &name) {
             return bool(attributesOf(self.op->get()).get(name));
           })
      .def(
          "__getitem__",
          [](const Map &self, const std::string &name) {
            mlir::Attribute found = attributesOf(self.op->get()).get(name);
            if (!found)
              throw nb::key_error("attempt to access a non-existent attribute");
            return toPython(self.op->context(), found);
          },
          nb::sig("def __getitem__(self, name: str) -> typing.Any"))
      .def("__setitem__",
           [](const Map &self, const std::string &name, const Attr &attribute) {
             setAttribute(*self.op, name, attribute);
           })
      .def("__delitem__",
           [](const Map &self, const std::string &name) {
             removeAttribute(*self.op, name);
           })
      .def(
          "__iter__",
          [](const Map &self) { return nb::iter(dictOf(*self.op)); },
          nb::sig("def __iter__(self) -> typing.Iterator[str]"))
      .def("keys", view("keys"),
           nb::sig("def keys(self) -> typing.KeysView[str]"))
      .def("values", view("values"),
           nb::sig("def values(self) -> typing.ValuesView[typing.Any]"))
      .def("items", view("items"),
           nb::sig("def items(self) -> typing.ItemsView[str, typing.Any]"));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

struct OpOperandList {
  OpRef op;
  unsigned at(int64_t index) const {
    int64_t size = op->get()->getNumOperands();
    if (index < -size || index >= size)
      throw nb::index_error("index out of range");
    return index < 0 ? index + size : index;
  }
};
struct OpOperand {
  OpRef owner;
  unsigned operand_number;
};

static void bindOperands(nb::module_ &m) {
  nb::class_<OpOperandList>(m, "OpOperandList")
      .def("__len__",
           [](const OpOperandList &self) {
             return self.op->get()->getNumOperands();
           })
      .def(
          "__getitem__",
          [](const OpOperandList &self, int64_t index) {
            return toPython(self.op,
                            self.op->get()->getOperand(self.at(index)));
          },
          nb::sig("def __getitem__(self, index: int) -> Value"))
      .def("__setitem__",
           [](const OpOperandList &self, int64_t index, const Value &value) {
             checkContext(self.op->context(), value.owner->context());
             self.op->get()->setOperand(self.at(index), value.get());
             self.op->use(*value.owner);
           });
  nb::class_<OpOperand>(m, "OpOperand")
      .def_ro("owner", &OpOperand::owner)
      .def_ro("operand_number", &OpOperand::operand_number);
}

//===----------------------------------------------------------------------===//
// Making and walking ops
//===----------------------------------------------------------------------===//

/// Inserts a new op where `place` says: an insertion point, none by False, the
/// default by None.
static void insertAt(const Op &op, nb::handle place) {
  if (nb::isinstance<InsertionPoint>(place))
    return nb::cast<InsertionPoint &>(place).insert(op);
  if (place.is_none() && !defaults().empty() && defaults().back().point)
    return defaults().back().point->insert(op);
  if (!place.is_none() && !place.is(nb::handle(Py_False)))
    throw nb::type_error("ip is an InsertionPoint, None or False");
}

using Attributes = std::vector<std::pair<std::string, Attr>>;

static OpRef create(std::string_view name,
                    const std::optional<std::vector<Type>> &results,
                    const std::optional<std::vector<Value>> &operands,
                    std::optional<nb::dict> attributes, unsigned regions,
                    const Location *loc, nb::handle ip) {
  Location location = locationOr(loc);
  const ContextRef &context = location.context;
  mlir::OperationName known(name, &context->context);
  if (!known.isRegistered() && !context->context.allowsUnregisteredDialects())
    throw nb::value_error(
        ("Operation '" + std::string(name) +
         "' is not registered; Context.allow_unregistered_dialects allows it")
            .c_str());
  mlir::OperationState state(location.value, known);
  for (const Type &type : results.value_or(std::vector<Type>())) {
    checkContext(context, type.context);
    state.addTypes(type.value);
  }
  for (const Value &value : operands.value_or(std::vector<Value>())) {
    checkContext(context, value.owner->context());
    state.addOperands(value.get());
  }
  for (unsigned i = 0; i < regions; ++i)
    state.addRegion();
  OpRef created = Op::own(context, mlir::Operation::create(state));
  if (attributes)
    for (auto [key, value] : *attributes) {
      std::string attribute;
      Attr *given = nullptr;
      if (!nb::try_cast(key, attribute) || !nb::try_cast(value, given) ||
          !given)
        throw nb::type_error("attributes are a dict of names and Attributes");
      setAttribute(*created, attribute, *given);
    }
  insertAt(*created, ip);
  return created;
}

static std::string print(const Op &op, const mlir::OpPrintingFlags &flags) {
  return toValid(
      collect([&](llvm::raw_ostream &os) { op.get()->print(os, flags); }));
}

static std::string getAsm(const Op &op, bool hasDebugInfo, bool isPretty,
                          bool isGeneric, bool isLocal) {
  mlir::OpPrintingFlags flags = flagsFor(op.get());
  if (hasDebugInfo)
    flags.enableDebugInfo(/*enable=*/true, isPretty);
  if (isGeneric)
    flags.printGenericOpForm();
  if (isLocal)
    flags.useLocalScope();
  return print(op, flags);
}

enum class WalkOrder { PRE_ORDER, POST_ORDER };
enum class WalkResult { ADVANCE, INTERRUPT, SKIP };

/// Visits the ops that are inside when it starts, except any erased before
/// their turn. False after an interrupt.
static bool walk(const OpRef &op, const nb::callable &callback,
                 WalkOrder order) {
  auto visit = [&] {
    WalkResult result;
    if (!nb::try_cast(callback(op), result))
      throw nb::type_error("the callback of a walk returns a WalkResult");
    return result;
  };
  if (order == WalkOrder::PRE_ORDER) {
    WalkResult result = visit();
    if (result != WalkResult::ADVANCE || !op->isLive())
      return result != WalkResult::INTERRUPT;
  }
  std::vector<OpRef> nested;
  for (mlir::Region &region : op->get()->getRegions())
    for (mlir::Operation &child : region.getOps())
      nested.push_back(op->other(&child));
  for (const OpRef &child : nested)
    if (child->isLive() && !walk(child, callback, order))
      return false;
  if (order == WalkOrder::PRE_ORDER || !op->isLive())
    return true;
  return visit() != WalkResult::INTERRUPT;
}

static void replaceAllUses(const Value &self, const Value &other) {
  checkContext(self.owner->context(), other.owner->context());
  if (self.get() != other.get()) // else MLIR would never end
    self.get().replaceAllUsesWith(other.get());
  self.owner->use(*other.owner); // as do all roots that used this value
}

static void moveTo(const Op &self, const OpRef &other, bool isAfter) {
  mlir::Operation *target = other->get();
  mlir::Block *block = target->getBlock();
  if (!block)
    throw nb::value_error("Detached operation has no block to move to");
  if (self.get()->isAncestor(target))
    throw nb::value_error("Attempt to move operation into itself");
  mlir::Operation *before = isAfter ? target->getNextNode() : target;
  if (before == self.get())
    return;
  checkContext(self.context(), other->context());
  if (self.get()->getBlock())
    self.detach();
  self.insertInto(*other->other(block->getParentOp()), block, before);
}

template <typename T>
static nb::tuple tupleOf(const std::vector<T> &items) {
  nb::list list;
  for (const T &item : items)
    list.append(item);
  return nb::tuple(list);
}

static nb::object resultOf(const OpRef &self) {
  mlir::Operation *op = self->get();
  if (op->getNumResults() != 1)
    throw nb::value_error(
        ("Cannot call .result on operation " +
         toValid(op->getName().getStringRef()) + " which has " +
         std::to_string(op->getNumResults()) +
         " results (it is only valid for operations with a single result)")
            .c_str());
  return toPython(self, op->getResult(0));
}

/// None for a module that is in no block.
static std::optional<OpRef> parentOf(const Op &op) {
  if (mlir::Operation *parent = op.get()->getParentOp())
    return op.other(parent);
  if (llvm::isa<mlir::ModuleOp>(op.get()))
    return std::nullopt;
  throw nb::value_error("Detached operations have no parent");
}

using BaseClass = nb::class_<OpBase>;

static void bindOpFields(BaseClass &bound) {
  bound
      .def_prop_ro("context",
                   [](const OpBase &op) { return op.ref()->context(); })
      .def_prop_ro("name",
                   [](const OpBase &op) {
                     return toValid(op.ref()->get()->getName().getStringRef());
                   })
      .def_prop_ro("location",
                   [](const OpBase &op) {
                     return Location{op.ref()->context(),
                                     op.ref()->get()->getLoc()};
                   })
      .def_prop_ro("operation", &OpBase::ref)
      .def_prop_ro(
          "opview", [](const OpBase &op) { return viewOf(op.ref()); },
          nb::sig("def opview(self) -> OpView"))
      .def_prop_ro("attached",
                   [](const OpBase &op) {
                     return op.ref()->get()->getBlock() != nullptr;
                   })
      .def_prop_ro("parent",
                   [](const OpBase &op) { return parentOf(*op.ref()); })
      .def_prop_ro("block",
                   [](const OpBase &base) -> std::optional<Block> {
                     OpRef op = base.ref();
                     mlir::Block *block = op->get()->getBlock();
                     if (!block)
                       return std::nullopt;
                     return Block{op->other(block->getParentOp()), block};
                   })
      .def_prop_ro("attributes",
                   [](const OpBase &op) { return OpAttributeMap{op.ref()}; })
      .def_prop_ro("operands",
                   [](const OpBase &op) { return OpOperandList{op.ref()}; });
}

static void bindOpParts(BaseClass &bound) {
  bound
      .def_prop_ro(
          "results",
          [](const OpBase &base) {
            OpRef op = base.ref();
            std::vector<nb::object> results;
            for (mlir::Value result : op->get()->getResults())
              results.push_back(toPython(op, result));
            return tupleOf(results);
          },
          nb::sig("def results(self) -> tuple[OpResult, ...]"))
      .def_prop_ro(
          "result", [](const OpBase &op) { return resultOf(op.ref()); },
          nb::sig("def result(self) -> OpResult"))
      .def_prop_ro(
          "regions",
          [](const OpBase &base) {
            OpRef op = base.ref();
            std::vector<nb::object> regions;
            for (unsigned i = 0; i < op->get()->getNumRegions(); ++i)
              regions.push_back(nb::cast(Region{op, i}));
            return tupleOf(regions);
          },
          nb::sig("def regions(self) -> tuple[Region, ...]"));
  bindEquality(
      bound, [](const OpBase &op) -> const void * { return op.ref()->get(); });
}

static void bindOpText(BaseClass &bound) {
  bound
      .def("__str__",
           [](const OpBase &op) {
             return print(*op.ref(), flagsFor(op.ref()->get()));
           })
      .def(
          "get_asm",
          [](const OpBase &op, bool hasDebugInfo, bool isPretty, bool isGeneric,
             bool isLocal) {
            return getAsm(*op.ref(), hasDebugInfo, isPretty, isGeneric,
                          isLocal);
          },
          nb::kw_only(), nb::arg("enable_debug_info") = false,
          nb::arg("pretty_debug_info") = false,
          nb::arg("print_generic_op_form") = false,
          nb::arg("use_local_scope") = false)
      .def("verify",
           [](const OpBase &op) {
             ir::verify(*op.ref(), "Verification failed");
             return true;
           })
      .def(
          "walk",
          [](const OpBase &op, const nb::callable &callback, WalkOrder order) {
            walk(op.ref(), callback, order);
          },
          nb::arg("callback"), nb::arg("walk_order") = WalkOrder::POST_ORDER,
          nb::sig("def walk(self, "
                  "callback: typing.Callable[[Operation], WalkResult], "
                  "walk_order: WalkOrder = ...) -> None"));
}

static void bindOpChanges(BaseClass &bound) {
  bound
      .def(
          "clone",
          [](const OpBase &base, nb::handle ip) {
            OpRef op = base.ref();
            OpRef copy = Op::own(op->context(), op->get()->clone());
            insertAt(*copy, ip);
            return viewOf(copy);
          },
          nb::arg("ip").none() = nb::none(),
          nb::sig("def clone(self, ip: InsertionPoint | bool | None = None) "
                  "-> OpView"))
      .def(
          "detach_from_parent",
          [](const OpBase &op) {
            op.ref()->detach();
            return viewOf(op.ref());
          },
          nb::sig("def detach_from_parent(self) -> OpView"))
      .def("erase", [](const OpBase &op) { op.ref()->erase(); })
      .def(
          "move_after",
          [](const OpBase &op, const OpBase &other) {
            moveTo(*op.ref(), other.ref(), true);
          },
          nb::arg("other"))
      .def(
          "move_before",
          [](const OpBase &op, const OpBase &other) {
            moveTo(*op.ref(), other.ref(), false);
          },
          nb::arg("other"));
}

static void bindOperation(nb::module_ &m) {
  nb::class_<Op, OpBase>(m, "Operation")
      .def_static(
          "parse",
          [](std::string_view source, std::string_view name,
             ContextRef context) {
            return viewOf(parseOp(source, name, std::move(context)));
          },
          nb::arg("source"), nb::kw_only(), nb::arg("source_name") = "",
          nb::arg("context").none() = nb::none(),
          nb::sig("def parse(source: str, *, source_name: str = '', "
                  "context: Context | None = None) -> OpView"))
      .def_static(
          "create", create, nb::arg("name"),
          nb::arg("results").none() = nb::none(),
          nb::arg("operands").none() = nb::none(),
          nb::arg("attributes").none() = nb::none(), nb::kw_only(),
          nb::arg("regions") = 0, nb::arg("loc").none() = nb::none(),
          nb::arg("ip").none() = nb::none(),
          nb::sig("def create(name: str, "
                  "results: typing.Sequence[Type] | None = None, "
                  "operands: typing.Sequence[Value] | None = None, "
                  "attributes: typing.Mapping[str, Attribute] | None = None, "
                  "*, regions: int = 0, loc: Location | None = None, "
                  "ip: InsertionPoint | bool | None = None) -> Operation"));
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// The classes of ops by their names. Never destroyed, as Python may end first.
static nb::dict &viewClasses() {
  static auto *classes = new nb::dict();
  return *classes;
}

nb::object ir::viewOf(const OpRef &op) {
  mlir::OperationName name = op->get()->getName();
  llvm::StringRef dialect = name.getDialectNamespace();
  if (dialect == "pipe" || dialect == "exec")
    nb::module_::import_(("pipesched.dialects." + dialect.str()).c_str());
  nb::object key = nb::cast(toValid(name.getStringRef()));
  nb::object found = nb::borrow(nb::type<OpView>());
  if (viewClasses().contains(key))
    found = viewClasses()[key];
  nb::object view = nb::inst_alloc(found);
  new (nb::inst_ptr<OpView>(view)) OpView(op);
  nb::inst_mark_ready(view);
  return view;
}

static void bindViews(nb::module_ &m) {
  nb::class_<OpView, OpBase>(m, "OpView")
      .def(
          "__init__",
          [](OpView *self, const OpBase &op) { new (self) OpView(op.ref()); },
          nb::arg("operation"));
  m.def(
      "register_operation",
      [](nb::object viewed) {
        viewClasses()[viewed.attr("OPERATION_NAME")] = viewed;
        return viewed;
      },
      nb::arg("op_class"),
      nb::sig("def register_operation(op_class: type) -> type"));
}

static void bindOp(nb::module_ &m) {
  auto bound = BaseClass(m, "OperationBase");
  bindOpFields(bound);
  bindOpParts(bound);
  bindOpText(bound);
  bindOpChanges(bound);
  bindOperation(m);
  bindViews(m);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static std::string textOf(const Value &value) {
  return toValid(collect([&](llvm::raw_ostream &os) {
    value.get().print(os, flagsFor(value.owner->get()));
  }));
}

static void bindValues(nb::module_ &m) {
  auto bound = nb::class_<Value>(m, "Value");
  bindEquality(
      bound, [](const Value &self) { return self.get().getAsOpaquePointer(); });
  bound.def_prop_ro("context",
                    [](const Value &self) { return self.owner->context(); });
  bound.def_prop_ro(
      "type",
      [](const Value &self) {
        return toPython(self.owner->context(), self.get().getType());
      },
      nb::sig("def type(self) -> Type"));
  bound.def_prop_ro(
      "uses",
      [](const Value &self) {
        std::vector<nb::object> uses;
        for (mlir::OpOperand &use : self.get().getUses())
          uses.push_back(nb::cast(OpOperand{self.owner->other(use.getOwner()),
                                            use.getOperandNumber()}));
        return tupleOf(uses);
      },
      nb::sig("def uses(self) -> tuple[OpOperand, ...]"));
  bound.def("replace_all_uses_with", replaceAllUses, nb::arg("value"));
  bound.def("__str__", [](nb::handle self) {
    return nb::str("{}({})").format(self.type().attr("__name__"),
                                    textOf(nb::cast<Value &>(self)));
  });
  nb::class_<OpResult, Value>(m, "OpResult")
      .def_prop_ro("owner", [](const OpResult &self) { return self.owner; })
      .def_prop_ro("result_number", [](const OpResult &self) {
        return llvm::cast<mlir::OpResult>(self.get()).getResultNumber();
      });
  nb::class_<BlockArgument, Value>(m, "BlockArgument")
      .def_prop_ro("owner",
                   [](const BlockArgument &self) {
                     return Block{self.owner, self.block};
                   })
      .def_prop_ro("arg_number", [](const BlockArgument &self) {
        return llvm::cast<mlir::BlockArgument>(self.get()).getArgNumber();
      });
}

void ir::bindOps(nb::module_ &m) {
  nb::enum_<WalkOrder>(m, "WalkOrder")
      .value("PRE_ORDER", WalkOrder::PRE_ORDER)
      .value("POST_ORDER", WalkOrder::POST_ORDER);
  nb::enum_<WalkResult>(m, "WalkResult")
      .value("ADVANCE", WalkResult::ADVANCE)
      .value("INTERRUPT", WalkResult::INTERRUPT)
      .value("SKIP", WalkResult::SKIP);
  bindAttributeMap(m);
  bindOperands(m);
  bindValues(m);
  bindOp(m);
}
