//===- IRContext.cpp - Contexts, locations, attributes and types ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds the classes that live as long as their context.
//
//===----------------------------------------------------------------------===//

#include "IR.h"
#include "PipeSched/InitAll.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/SaveAndRestore.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
namespace ir = pipesched::python::ir;
using namespace pipesched::python;
using namespace pipesched::python::ir;

//===----------------------------------------------------------------------===//
// Contexts and defaults
//===----------------------------------------------------------------------===//

static mlir::DialectRegistry makeRegistry() {
  mlir::DialectRegistry registry;
  pipesched::registerAllDialects(registry);
  return registry;
}

ir::Context::Context()
    : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
}

std::vector<Defaults> &ir::defaults() {
  // Never destroyed, since a thread may end without the GIL.
  static thread_local auto *stack = new std::vector<Defaults>();
  return *stack;
}

ContextRef ir::contextOr(ContextRef given) {
  if (given)
    return given;
  if (!defaults().empty())
    return defaults().back().context;
  throw std::runtime_error(
      "An MLIR function requires a Context but none was provided in the call "
      "or from the surrounding environment. Either pass to the function with a "
      "'context=' argument or establish a default using 'with Context():'");
}

Location ir::locationOr(const Location *given) {
  if (given)
    return *given;
  if (!defaults().empty() && defaults().back().location)
    return *defaults().back().location;
  throw std::runtime_error(
      "An MLIR function requires a Location but none was provided in the call "
      "or from the surrounding environment. Either pass to the function with a "
      "'loc=' argument or establish a default using 'with loc:'");
}

void ir::checkContext(const ContextRef &context, const ContextRef &other) {
  if (context != other)
    throw nb::value_error("an argument is of another Context");
}

void ir::enter(Defaults entered) {
  if (!defaults().empty() && defaults().back().context == entered.context) {
    const Defaults &outer = defaults().back();
    if (!entered.location)
      entered.location = outer.location;
    if (!entered.point)
      entered.point = outer.point;
  }
  defaults().push_back(std::move(entered));
}

static nb::class_<Context> bindContexts(nb::module_ &m) {
  auto bound = nb::class_<Context>(m, "Context")
                   .def(nb::new_([] { return std::make_shared<Context>(); }))
                   .def_prop_rw(
                       "allow_unregistered_dialects",
                       [](Context &self) {
                         return self.context.allowsUnregisteredDialects();
                       },
                       [](Context &self, bool allow) {
                         self.context.allowUnregisteredDialects(allow);
                       })
                   .def(
                       "is_registered_operation",
                       [](Context &self, std::string_view name) {
                         return self.context.isOperationRegistered(name);
                       },
                       nb::arg("operation_name"));
  bindCurrent(
      bound, [](Defaults &set) { return std::optional(set.context); },
      nb::sig("def current(cls, /) -> Context | None"));
  bindWith(bound, "Context", [](Context &, nb::handle self) {
    return Defaults{nb::cast<ContextRef>(self), std::nullopt, std::nullopt};
  });
  return bound;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void ir::checkOutsideHandler(const Context &context) {
  if (context.inHandler)
    throw std::runtime_error("a diagnostic handler cannot do what may emit "
                             "diagnostics or change handlers");
}

ErrorCapture::ErrorCapture(ContextRef given) : context(std::move(given)) {
  checkOutsideHandler(*context);
  handler = context->context.getDiagEngine().registerHandler(
      [this](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
          return mlir::failure();
        errors.push_back(std::move(diagnostic));
        return mlir::success();
      });
}

ErrorCapture::~ErrorCapture() {
  context->context.getDiagEngine().eraseHandler(handler);
}

/// The tuple that pipesched.ir takes: (severity, location, message, notes).
static nb::tuple toTuple(const ContextRef &context,
                         mlir::Diagnostic &diagnostic) {
  nb::list notes;
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    notes.append(toTuple(context, note));
  return nb::make_tuple(int(diagnostic.getSeverity()),
                        Location{context, diagnostic.getLocation()},
                        toValid(diagnostic.str()), notes);
}

void ErrorCapture::raise(const char *what) {
  nb::list tuples;
  for (mlir::Diagnostic &error : errors)
    tuples.append(toTuple(context, error));
  nb::object error =
      nb::module_::import_("pipesched.ir").attr("error_of")(what, tuples);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())),
                  error.ptr());
  throw nb::python_error();
}

namespace {
/// A function of Python that MLIR calls with the diagnostics that no later
/// handler has taken. The context owns it until it is detached.
struct Handling {
  nb::object callback;
  bool hadError = false;
  mlir::LogicalResult handle(Context &context, mlir::Diagnostic &diagnostic);
};

struct DiagnosticHandler {
  ContextRef context;
  std::shared_ptr<Handling> handling;
  std::optional<mlir::DiagnosticEngine::HandlerID> id;
};
} // namespace

/// An exception cannot pass through MLIR: Python reports it as one that nobody
/// can catch.
mlir::LogicalResult Handling::handle(Context &context,
                                     mlir::Diagnostic &diagnostic) {
  llvm::SaveAndRestore running(context.inHandler, true);
  try {
    auto kept = nb::cast<ContextRef>(nb::find(context));
    nb::object info = nb::module_::import_("pipesched.ir")
                          .attr("info_of")(toTuple(kept, diagnostic));
    return mlir::success(nb::cast<bool>(callback(info)));
  } catch (nb::python_error &error) {
    error.discard_as_unraisable(callback);
  } catch (const nb::cast_error &) {
    PyErr_SetString(PyExc_TypeError, "a diagnostic handler returns a bool");
    PyErr_WriteUnraisable(callback.ptr());
  }
  hadError = true;
  return mlir::failure();
}

static DiagnosticHandler attachHandler(const ContextRef &context,
                                       nb::callable callback) {
  checkOutsideHandler(*context);
  auto handling = std::make_shared<Handling>(Handling{std::move(callback)});
  mlir::DiagnosticEngine &engine = context->context.getDiagEngine();
  auto id = engine.registerHandler(
      [handling, owner = context.get()](mlir::Diagnostic &diagnostic) {
        return handling->handle(*owner, diagnostic);
      });
  return {context, handling, id};
}

static void detachHandler(DiagnosticHandler &self) {
  if (!self.id)
    return;
  checkOutsideHandler(*self.context);
  self.context->context.getDiagEngine().eraseHandler(
      *std::exchange(self.id, std::nullopt));
}

static void bindHandlers(nb::module_ &m, nb::class_<Context> &context) {
  nb::class_<DiagnosticHandler>(m, "DiagnosticHandler")
      .def("detach", detachHandler)
      .def_prop_ro(
          "attached",
          [](const DiagnosticHandler &self) { return self.id.has_value(); })
      .def_prop_ro(
          "had_error",
          [](const DiagnosticHandler &self) { return self.handling->hadError; })
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> DiagnosticHandler"))
      .def(
          "__exit__",
          [](DiagnosticHandler &self, nb::args) { detachHandler(self); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
  context.def("attach_diagnostic_handler", attachHandler, nb::arg("callback"),
              nb::sig("def attach_diagnostic_handler(self, "
                      "callback: typing.Callable[[typing.Any], bool]) "
                      "-> DiagnosticHandler"));
}

//===----------------------------------------------------------------------===//
// Uniqued objects
//===----------------------------------------------------------------------===//

template <typename T>
static std::string textOf(const Uniqued<T> &uniqued) {
  return toValid(
      collect([&](llvm::raw_ostream &os) { uniqued.value.print(os); }));
}

template <typename T>
static void bindUniqued(nb::class_<Uniqued<T>> &bound) {
  bound.def_prop_ro("context",
                    [](const Uniqued<T> &self) { return self.context; });
  bound.def("__str__", textOf<T>);
  bound.def("__repr__", [](nb::handle self) {
    return nb::str("{}({})").format(self.type().attr("__name__"),
                                    nb::str(self));
  });
  bindEquality(bound, [](const Uniqued<T> &self) {
    return self.value.getAsOpaquePointer();
  });
}

/// The result of `parse` for a text that is exactly one attribute or type.
template <typename Parse>
static nb::object parseUniqued(std::string_view text, ContextRef given,
                               const char *what, Parse parse) {
  ContextRef context = contextOr(std::move(given));
  ErrorCapture errors(context);
  auto parsed = parse(llvm::StringRef(text), &context->context);
  if (!parsed)
    errors.raise(what);
  return toPython(context, parsed);
}

/// An attribute or type of one class.
template <typename T, typename Base>
struct Special : Base {};

template <typename T, typename Base>
static bool castTo(const ContextRef &context, decltype(Base::value) value,
                   nb::object &found) {
  if (!found && llvm::isa<T>(value))
    found = nb::cast(Special<T, Base>{{context, value}});
  return bool(found);
}

template <typename... Ts, typename T>
static nb::object castToOneOf(const ContextRef &context, T value) {
  nb::object found;
  (castTo<Ts, Uniqued<T>>(context, value, found) || ...);
  return found ? found : nb::cast(Uniqued<T>{context, value});
}

nb::object ir::toPython(const ContextRef &context, mlir::Attribute value) {
  if (!value)
    return nb::none();
  return castToOneOf<mlir::BoolAttr, mlir::IntegerAttr, mlir::StringAttr,
                     mlir::FlatSymbolRefAttr, mlir::UnitAttr, mlir::ArrayAttr,
                     mlir::DenseI32ArrayAttr, mlir::DenseI64ArrayAttr>(context,
                                                                       value);
}

nb::object ir::toPython(const ContextRef &context, mlir::Type value) {
  return castToOneOf<mlir::IntegerType>(context, value);
}

template <typename T>
using SpecialAttr = Special<T, Attr>;

template <typename T>
static SpecialAttr<T> make(const ContextRef &context, T value) {
  return {{context, value}};
}

template <typename T>
static T valueOf(const SpecialAttr<T> &self) {
  return llvm::cast<T>(self.value);
}

/// Binds a class of attributes that one value of `V` makes.
template <typename T, typename V, typename Get>
static auto bindAttr(nb::module_ &m, const char *name, Get get) {
  return nb::class_<SpecialAttr<T>, Attr>(m, name).def_static(
      "get",
      [get](V value, ContextRef given) {
        ContextRef context = contextOr(std::move(given));
        return make<T>(context, get(&context->context, value));
      },
      nb::arg("value"), nb::arg("context").none() = nb::none());
}

/// Makes a class a sequence of the results of `at`.
template <typename T, typename At>
static void bindSequence(nb::class_<SpecialAttr<T>, Attr> bound, At at) {
  bound.def("__len__", [](const SpecialAttr<T> &self) {
    return size_t(valueOf(self).size());
  });
  bound.def("__getitem__", [at](const SpecialAttr<T> &self, int64_t index) {
    int64_t size = valueOf(self).size();
    if (index < -size || index >= size)
      throw nb::index_error("index out of range");
    return at(self, index < 0 ? index + size : index);
  });
}

template <typename T, typename Number>
static void bindNumbers(nb::module_ &m, const char *name) {
  bindSequence(
      bindAttr<T, std::vector<Number>>(
          m, name,
          [](mlir::MLIRContext *context, const std::vector<Number> &numbers) {
            return T::get(context, numbers);
          }),
      [](const SpecialAttr<T> &self, int64_t index) {
        return valueOf(self)[index];
      });
}

static SpecialAttr<mlir::IntegerAttr> getInteger(const Type &type,
                                                 int64_t value) {
  if (!type.value.isIndex() && !type.value.isSignlessInteger())
    throw nb::value_error("expected index or a signless integer type");
  unsigned width =
      type.value.isIndex() ? 64 : type.value.getIntOrFloatBitWidth();
  if (width < 64 && !llvm::isIntN(width, value) && !llvm::isUIntN(width, value))
    throw nb::value_error("the number does not fit the type");
  return make(
      type.context,
      mlir::IntegerAttr::get(type.value, llvm::APInt(width, value, true,
                                                     /*implicitTrunc=*/true)));
}

static int64_t integerOf(const SpecialAttr<mlir::IntegerAttr> &self) {
  llvm::APInt value = valueOf(self).getValue();
  if (!value.isSignedIntN(64))
    throw nb::value_error("the number has more than 64 bits");
  return value.getSExtValue();
}

static void bindAttributes(nb::module_ &m) {
  auto bound = nb::class_<Attr>(m, "Attribute");
  bindUniqued(bound);
  bound.def_static(
      "parse",
      [](std::string_view text, ContextRef context) {
        return parseUniqued(text, std::move(context),
                            "Unable to parse attribute",
                            [](llvm::StringRef text, mlir::MLIRContext *in) {
                              return mlir::parseAttribute(text, in);
                            });
      },
      nb::arg("asm"), nb::arg("context").none() = nb::none(),
      nb::sig("def parse(asm: str, context: Context | None = None) -> "
              "typing.Any"));

  using mlir::MLIRContext;
  bindAttr<mlir::BoolAttr, bool>(m, "BoolAttr", mlir::BoolAttr::get)
      .def_prop_ro("value", [](const SpecialAttr<mlir::BoolAttr> &self) {
        return valueOf(self).getValue();
      });
  nb::class_<SpecialAttr<mlir::IntegerAttr>, Attr>(m, "IntegerAttr")
      .def_static("get", getInteger, nb::arg("type"), nb::arg("value"))
      .def_prop_ro("value", integerOf);
  bindAttr<mlir::StringAttr, std::string>(
      m, "StringAttr",
      [](MLIRContext *in, const std::string &text) {
        return mlir::StringAttr::get(in, text);
      })
      .def_prop_ro("value", [](const SpecialAttr<mlir::StringAttr> &self) {
        return toValid(valueOf(self).getValue());
      });
  bindAttr<mlir::FlatSymbolRefAttr, std::string>(
      m, "FlatSymbolRefAttr",
      [](MLIRContext *in, const std::string &symbol) {
        return mlir::FlatSymbolRefAttr::get(in, symbol);
      })
      .def_prop_ro("value",
                   [](const SpecialAttr<mlir::FlatSymbolRefAttr> &self) {
                     return toValid(valueOf(self).getValue());
                   });
  nb::class_<SpecialAttr<mlir::UnitAttr>, Attr>(m, "UnitAttr")
      .def_static(
          "get",
          [](ContextRef given) {
            ContextRef context = contextOr(std::move(given));
            return make(context, mlir::UnitAttr::get(&context->context));
          },
          nb::arg("context").none() = nb::none());
  bindSequence(bindAttr<mlir::ArrayAttr, std::vector<Attr>>(
                   m, "ArrayAttr",
                   [](MLIRContext *in, const std::vector<Attr> &entries) {
                     llvm::SmallVector<mlir::Attribute> values;
                     for (const Attr &entry : entries) {
                       if (entry.value.getContext() != in)
                         throw nb::value_error(
                             "an argument is of another Context");
                       values.push_back(entry.value);
                     }
                     return mlir::ArrayAttr::get(in, values);
                   }),
               [](const SpecialAttr<mlir::ArrayAttr> &self, int64_t index) {
                 return toPython(self.context, valueOf(self)[index]);
               });
  bindNumbers<mlir::DenseI32ArrayAttr, int32_t>(m, "DenseI32ArrayAttr");
  bindNumbers<mlir::DenseI64ArrayAttr, int64_t>(m, "DenseI64ArrayAttr");
}

static void bindTypes(nb::module_ &m) {
  auto bound = nb::class_<Type>(m, "Type");
  bindUniqued(bound);
  bound.def_static(
      "parse",
      [](std::string_view text, ContextRef context) {
        return parseUniqued(text, std::move(context), "Unable to parse type",
                            [](llvm::StringRef text, mlir::MLIRContext *in) {
                              return mlir::parseType(text, in);
                            });
      },
      nb::arg("asm"), nb::arg("context").none() = nb::none(),
      nb::sig("def parse(asm: str, context: Context | None = None) -> "
              "typing.Any"));
  using Integer = Special<mlir::IntegerType, Type>;
  nb::class_<Integer, Type>(m, "IntegerType")
      .def_static(
          "get_signless",
          [](unsigned width, ContextRef given) {
            if (width > mlir::IntegerType::kMaxWidth)
              throw nb::value_error("the width is too large");
            ContextRef context = contextOr(std::move(given));
            return Integer{
                {context, mlir::IntegerType::get(&context->context, width)}};
          },
          nb::arg("width"), nb::arg("context").none() = nb::none())
      .def_prop_ro("width", [](const Integer &self) {
        return self.value.getIntOrFloatBitWidth();
      });
}

static void bindLocations(nb::module_ &m) {
  auto bound = nb::class_<Location>(m, "Location");
  bindUniqued(bound);
  bindWith(bound, "Location", [](Location &self, nb::handle) {
    return Defaults{self.context, self, std::nullopt};
  });
  bindCurrent(
      bound, [](Defaults &set) { return set.location; },
      nb::sig("def current(cls, /) -> Location | None"));
  bound.def_static(
      "unknown",
      [](ContextRef given) {
        ContextRef context = contextOr(std::move(given));
        return Location{context, mlir::UnknownLoc::get(&context->context)};
      },
      none("context"));
  bound.def_static(
      "file",
      [](std::string_view file, unsigned line, unsigned column,
         ContextRef given) {
        ContextRef context = contextOr(std::move(given));
        return Location{context, mlir::FileLineColLoc::get(&context->context,
                                                           file, line, column)};
      },
      nb::arg("filename"), nb::arg("line"), nb::arg("col"), none("context"));
  bound.def_static(
      "name",
      [](std::string_view name, const Location *child, ContextRef given) {
        ContextRef context = contextOr(std::move(given));
        auto text = mlir::StringAttr::get(&context->context, name);
        if (!child)
          return Location{context, mlir::NameLoc::get(text)};
        checkContext(context, child->context);
        return Location{context, mlir::NameLoc::get(text, child->value)};
      },
      nb::arg("name"), none("childLoc"), none("context"));
  bound.def(
      "emit_error",
      [](const Location &self, std::string_view message) {
        checkOutsideHandler(*self.context);
        mlir::emitError(self.value, llvm::StringRef(message));
      },
      nb::arg("message"));
}

void ir::bindContext(nb::module_ &m) {
  nb::class_<Context> context = bindContexts(m);
  bindHandlers(m, context);
  bindAttributes(m);
  bindTypes(m);
  bindLocations(m);
}
