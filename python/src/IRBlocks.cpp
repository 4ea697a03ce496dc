//===- IRBlocks.cpp - Regions, blocks and modules -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds the holders of ops: regions, blocks, modules and rows.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "IR.h"
#include "Module.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace pipesched::python;
using namespace pipesched::python::ir;
namespace ir = pipesched::python::ir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Regions and blocks
//===----------------------------------------------------------------------===//

static nb::tuple blocksOf(const ir::Region &region) {
  nb::list blocks;
  for (mlir::Block &block : region.get())
    blocks.append(nb::cast(ir::Block{region.owner, &block}));
  return nb::tuple(blocks);
}

static nb::tuple operationsOf(const ir::Block &block) {
  nb::list ops;
  for (mlir::Operation &op : *block.get())
    ops.append(viewOf(block.owner->other(&op)));
  return nb::tuple(ops);
}

/// Makes a block with arguments. Without locations, they have the default one.
static ir::Block createBlock(const ir::Region &region, bool isAtStart,
                             const std::vector<ir::Type> &types,
                             std::optional<std::vector<ir::Location>> places) {
  if (!places)
    places = types.empty() ? std::vector<ir::Location>()
                           : std::vector(types.size(), locationOr(nullptr));
  if (places->size() != types.size())
    throw nb::value_error("Expected as many locations as types of arguments");
  const ContextRef &context = region.owner->context();
  checkMayChangeInside(*region.owner);
  for (size_t i = 0; i < types.size(); ++i) {
    checkContext(context, types[i].context);
    checkContext(context, (*places)[i].context);
  }
  auto *block = new mlir::Block();
  mlir::Region &target = region.get();
  target.getBlocks().insert(isAtStart ? target.begin() : target.end(), block);
  for (auto [type, place] : llvm::zip(types, *places))
    block->addArgument(type.value, place.value);
  return {region.owner, block};
}

struct BlockList {
  ir::Region region;
};

static void bindRegions(nb::module_ &m) {
  auto bound = nb::class_<ir::Region>(m, "Region");
  bindEquality(bound, [](const ir::Region &self) -> const void * {
    return &self.get();
  });
  bound.def_prop_ro("owner", [](const ir::Region &self) { return self.owner; });
  bound.def_prop_ro("blocks",
                    [](const ir::Region &self) { return BlockList{self}; });
  bound.def(
      "__iter__",
      [](const ir::Region &self) { return nb::iter(blocksOf(self)); },
      nb::sig("def __iter__(self) -> typing.Iterator[Block]"));
  nb::class_<BlockList>(m, "BlockList")
      .def("__len__",
           [](const BlockList &self) { return blocksOf(self.region).size(); })
      .def(
          "__getitem__",
          [](const BlockList &self, nb::object index) {
            return nb::object(nb::object(blocksOf(self.region))[index]);
          },
          nb::sig("def __getitem__(self, index: int) -> Block"))
      .def(
          "__iter__",
          [](const BlockList &self) { return nb::iter(blocksOf(self.region)); },
          nb::sig("def __iter__(self) -> typing.Iterator[Block]"))
      .def(
          "append",
          [](const BlockList &self, nb::args types,
             std::optional<std::vector<ir::Location>> places) {
            return createBlock(self.region, /*isAtStart=*/false,
                               nb::cast<std::vector<ir::Type>>(types),
                               std::move(places));
          },
          nb::arg("args"), nb::arg("arg_locs").none() = nb::none(),
          nb::sig("def append(self, *args: Type, "
                  "arg_locs: typing.Sequence[Location] | None = None) "
                  "-> Block"));
}

static nb::tuple argumentsOf(const ir::Block &block) {
  nb::list arguments;
  for (mlir::BlockArgument argument : block.get()->getArguments())
    arguments.append(
        nb::cast(ir::BlockArgument{{block.owner, argument, block.block}}));
  return nb::tuple(arguments);
}

static void bindBlocks(nb::module_ &m) {
  auto bound = nb::class_<ir::Block>(m, "Block");
  bindEquality(
      bound, [](const ir::Block &self) -> const void * { return self.get(); });
  bound.def_prop_ro("owner", [](const ir::Block &self) { return self.owner; });
  bound.def_prop_ro("region", [](const ir::Block &self) {
    return ir::Region{self.owner, self.get()->getParent()->getRegionNumber()};
  });
  bound.def_prop_ro(
      "arguments", argumentsOf,
      nb::sig("def arguments(self) -> tuple[BlockArgument, ...]"));
  bound.def_prop_ro("operations", operationsOf,
                    nb::sig("def operations(self) -> tuple[OpView, ...]"));
  bound.def(
      "__iter__",
      [](const ir::Block &self) { return nb::iter(operationsOf(self)); },
      nb::sig("def __iter__(self) -> typing.Iterator[OpView]"));
  bound.def("__str__", [](const ir::Block &self) {
    mlir::Operation *owner = self.owner->get();
    mlir::AsmState state(owner, flagsFor(owner));
    return toValid(
        collect([&](llvm::raw_ostream &os) { self.get()->print(os, state); }));
  });
  bound.def(
      "append",
      [](const ir::Block &self, const OpBase &base) {
        OpRef op = base.ref();
        if (op->get()->getBlock())
          op->detach();
        InsertionPoint{self, nullptr}.insert(*op);
      },
      nb::arg("operation"));
  bound.def_static(
      "create_at_start",
      [](const ir::Region &parent, const std::vector<ir::Type> &types,
         std::optional<std::vector<ir::Location>> places) {
        return createBlock(parent, /*isAtStart=*/true, types,
                           std::move(places));
      },
      nb::arg("parent"), nb::arg("arg_types") = nb::list(),
      nb::arg("arg_locs").none() = nb::none());
}

//===----------------------------------------------------------------------===//
// Insertion points
//===----------------------------------------------------------------------===//

static ir::Block blockOf(const OpRef &op) {
  mlir::Block *block = op->get()->getBlock();
  if (!block)
    throw nb::value_error("Detached operation has no block to insert into");
  return {op->other(block->getParentOp()), block};
}

/// Before an op of the block, or at its end.
static InsertionPoint pointBefore(const ir::Block &block,
                                  mlir::Operation *before) {
  return {block, block.owner->other(before)};
}

static void bindPoints(nb::module_ &m) {
  using Point = InsertionPoint;
  auto bound = nb::class_<Point>(m, "InsertionPoint");
  bound.def(
      "__init__",
      [](Point *self, const ir::Block &block) {
        new (self) Point{block, nullptr};
      },
      nb::arg("block"));
  bound.def(
      "__init__",
      [](Point *self, const OpBase &before) {
        new (self) Point{blockOf(before.ref()), before.ref()};
      },
      nb::arg("beforeOperation"));
  bound.def_static(
      "at_block_begin",
      [](const ir::Block &block) {
        return pointBefore(block, block.get()->empty() ? nullptr
                                                       : &block.get()->front());
      },
      nb::arg("block"));
  bound.def_static(
      "at_block_terminator",
      [](const ir::Block &block) {
        if (!block.get()->mightHaveTerminator())
          throw nb::value_error("Block has no terminator");
        return pointBefore(block, &block.get()->back());
      },
      nb::arg("block"));
  bound.def_static(
      "after",
      [](const OpBase &op) {
        return pointBefore(blockOf(op.ref()), op.ref()->get()->getNextNode());
      },
      nb::arg("op"));
  bound.def(
      "insert",
      [](const Point &self, const OpBase &op) { self.insert(*op.ref()); },
      nb::arg("operation"));
  bound.def_prop_ro("block", [](const Point &self) { return self.block; });
  bound.def_prop_ro(
      "ref_operation", [](const Point &self) -> std::optional<OpRef> {
        return self.before ? std::optional(self.before) : std::nullopt;
      });
  bindWith(bound, "InsertionPoint", [](Point &self, nb::handle) {
    return Defaults{self.block.owner->context(), std::nullopt, self};
  });
  bound.def_prop_ro_static(
      "current",
      [](nb::handle) {
        if (defaults().empty() || !defaults().back().point)
          throw nb::value_error("No current InsertionPoint");
        return *defaults().back().point;
      },
      nb::sig("def current(cls, /) -> InsertionPoint"));
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

struct IRModule {
  OpRef op;
  mlir::ModuleOp get() const { return llvm::cast<mlir::ModuleOp>(op->get()); }
};

static IRModule parseModule(std::string_view source, ContextRef given) {
  ContextRef context = contextOr(std::move(given));
  ErrorCapture errors(context);
  auto sources = guardSource(context->context, source, "-", false);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (sources)
    module = mlir::parseSourceFile<mlir::ModuleOp>(
        *sources, mlir::ParserConfig(&context->context));
  if (!module)
    errors.raise("Unable to parse module assembly");
  return {Op::own(context, module.release())};
}

OpRef ir::parseOp(std::string_view source, std::string_view name,
                  ContextRef given) {
  ContextRef context = contextOr(std::move(given));
  ErrorCapture errors(context);
  mlir::Block block;
  auto sources = guardSource(context->context, source, name, false);
  if (!sources || failed(mlir::parseSourceFile(
                      *sources, &block, mlir::ParserConfig(&context->context))))
    errors.raise("Unable to parse operation assembly");
  if (!llvm::hasSingleElement(block))
    throw nb::value_error("Expected one operation");
  mlir::Operation *op = &block.front();
  op->remove();
  return Op::own(context, op);
}

static void bindModules(nb::module_ &m) {
  nb::class_<IRModule>(m, "IRModule")
      .def_static("parse", parseModule, nb::arg("asm"), none("context"))
      .def_static(
          "parse",
          [](nb::bytes code, ContextRef context) {
            return parseModule({code.c_str(), code.size()}, context);
          },
          nb::arg("asm"), none("context"))
      .def_static(
          "create",
          [](const ir::Location *loc) {
            ir::Location location = locationOr(loc);
            return IRModule{Op::own(location.context,
                                    mlir::ModuleOp::create(location.value))};
          },
          none("loc"))
      .def_prop_ro("context",
                   [](const IRModule &self) { return self.op->context(); })
      .def_prop_ro("operation", [](const IRModule &self) { return self.op; })
      .def_prop_ro("body",
                   [](const IRModule &self) {
                     if (self.get().getBodyRegion().empty())
                       throw nb::value_error("The module has no block");
                     return ir::Block{self.op, self.get().getBody()};
                   })
      .def("__str__", [](const IRModule &self) {
        return toValid(collect([&](llvm::raw_ostream &os) {
          self.op->get()->print(os, flagsFor(self.op->get()));
        }));
      });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Of an op outside of a schedule and a program, microbatches are whole.
static int64_t slicesOf(mlir::Operation *op) {
  if (auto schedule = op->getParentOfType<pipe::ScheduleOp>())
    return schedule.getSlices();
  auto program = op->getParentOfType<exec::ProgramOp>();
  return program ? program.getSlices() : 1;
}

/// The entries of cells in the form of attributes of an op.
static std::vector<std::string> textsOf(const OpBase &base,
                                        const std::vector<int64_t> &bits) {
  std::vector<Cell> cells;
  for (int64_t stored : bits)
    if (std::optional<Cell> cell = fromStored(stored))
      cells.push_back(*cell);
    else
      throw nb::value_error("the number is not a cell");
  return wordsOf(cells, slicesOf(base.ref()->get()));
}

static std::vector<int64_t> bitsOf(const OpBase &base,
                                   const std::vector<RawCell> &cells) {
  auto made = valueOf(
      pipesched::makeRows(toNumbers({cells}), slicesOf(base.ref()->get())));
  std::vector<int64_t> bits;
  for (Cell cell : made.front())
    bits.push_back(toStored(cell));
  return bits;
}

/// As `replaceRows` does.
static void dropFamily(const OpBase &row) {
  if (auto schedule = row.ref()->get()->getParentOfType<pipe::ScheduleOp>())
    schedule.dropFamily();
}

void pipesched::python::bindIR(nb::module_ &m) {
  ir::bindContext(m);
  bindBlocks(m);
  bindRegions(m);
  ir::bindOps(m);
  bindPoints(m);
  bindModules(m);
  ir::bindPasses(m);
  m.def("texts_of_cells", textsOf, nb::arg("operation"), nb::arg("bits"));
  m.def("bits_of_cells", bitsOf, nb::arg("operation"), nb::arg("cells"));
  m.def("drop_family", dropFamily, nb::arg("row"));
}
