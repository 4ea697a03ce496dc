//===- ExternLibraries.cpp - Files with extern functions ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads symbol tables without loading the libraries.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/ExternLibraries.h"
#include "PipeSched/Stages/ExternFunction.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/BinaryFormat/Magic.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;
using llvm::object::ObjectFile;
using llvm::object::SymbolRef;

namespace {
/// A library and the functions that it defines.
struct OpenLibrary {
  ExternLibrary library;
  llvm::StringSet<> defined;

  static llvm::Expected<OpenLibrary> open(StringRef path);

private:
  llvm::Error read(const llvm::MemoryBuffer &buffer);
  llvm::Error readArchive(const llvm::MemoryBuffer &buffer);
  llvm::Error readObject(const ObjectFile &object);
};
} // namespace

static bool isDefinedFunction(SymbolRef symbol) {
  llvm::Expected<uint32_t> flags = symbol.getFlags();
  llvm::Expected<SymbolRef::Type> type = symbol.getType();
  if (!flags || !type) {
    llvm::consumeError(flags.takeError());
    llvm::consumeError(type.takeError());
    return false;
  }
  return *type == SymbolRef::ST_Function && (*flags & SymbolRef::SF_Global) &&
         !(*flags & SymbolRef::SF_Undefined);
}

llvm::Error OpenLibrary::readObject(const ObjectFile &object) {
  llvm::Triple host(llvm::sys::getProcessTriple());
  if (object.getArch() != host.getArch())
    return makeError("is for " +
                     llvm::Triple::getArchTypeName(object.getArch()) +
                     ", and this machine is " + host.getArchName());
  auto add = [&](SymbolRef symbol) {
    if (!isDefinedFunction(symbol))
      return;
    if (llvm::Expected<StringRef> name = symbol.getName())
      defined.insert(*name);
    else
      llvm::consumeError(name.takeError());
  };
  const auto *elf = dyn_cast<llvm::object::ELFObjectFileBase>(&object);
  if (library.kind == ExternLibrary::Kind::Shared && elf) {
    for (SymbolRef symbol : elf->getDynamicSymbolIterators())
      add(symbol);
    return llvm::Error::success();
  }
  for (SymbolRef symbol : object.symbols())
    add(symbol);
  return llvm::Error::success();
}

llvm::Error OpenLibrary::readArchive(const llvm::MemoryBuffer &buffer) {
  auto archive = llvm::object::Archive::create(buffer.getMemBufferRef());
  if (!archive)
    return archive.takeError();
  llvm::Error error = llvm::Error::success();
  for (const llvm::object::Archive::Child &child :
       (*archive)->children(error)) {
    auto binary = child.getAsBinary();
    if (!binary) { // such as a text file
      llvm::consumeError(binary.takeError());
      continue;
    }
    if (const auto *object = dyn_cast<ObjectFile>(binary->get()))
      if (llvm::Error wrong = readObject(*object)) {
        llvm::consumeError(std::move(error));
        return wrong;
      }
  }
  return error;
}

llvm::Error OpenLibrary::read(const llvm::MemoryBuffer &buffer) {
  switch (llvm::identify_magic(buffer.getBuffer())) {
  case llvm::file_magic::archive:
    library.kind = ExternLibrary::Kind::Archive;
    return readArchive(buffer);
  case llvm::file_magic::elf_relocatable:
  case llvm::file_magic::macho_object:
    library.kind = ExternLibrary::Kind::Object;
    break;
  case llvm::file_magic::elf_shared_object:
  case llvm::file_magic::macho_dynamically_linked_shared_lib:
    library.kind = ExternLibrary::Kind::Shared;
    break;
  default:
    return makeError("is not an object file, archive or shared library");
  }
  auto object = ObjectFile::createObjectFile(buffer.getMemBufferRef());
  return object ? readObject(**object) : object.takeError();
}

llvm::Expected<OpenLibrary> OpenLibrary::open(StringRef path) {
  auto buffer = readWholeFile(path);
  if (!buffer)
    return buffer.takeError();
  OpenLibrary opened;
  opened.library.path = path.str();
  if (llvm::Error error = opened.read(**buffer))
    return makeError("'" + path + "' " + llvm::toString(std::move(error)));
  return std::move(opened);
}

namespace {
class LibraryFinder {
public:
  explicit LibraryFinder(StringRef folder) : folder(folder) {}

  LogicalResult add(func::FuncOp function);
  LogicalResult verifyUnique();
  std::vector<ExternLibrary> take();

private:
  FailureOr<OpenLibrary *> open(func::FuncOp function, StringRef name);

  StringRef folder;
  /// Pointers, so that addresses stay the same.
  std::vector<std::unique_ptr<OpenLibrary>> libraries;
  std::vector<std::pair<func::FuncOp, ExternFunction>> functions;
};
} // namespace

FailureOr<OpenLibrary *> LibraryFinder::open(func::FuncOp function,
                                             StringRef name) {
  llvm::SmallString<128> path(name);
  if (llvm::sys::path::is_relative(path)) {
    path = folder;
    llvm::sys::path::append(path, name);
  }
  if (std::error_code code = llvm::sys::fs::make_absolute(path))
    return function->emitError() << code.message();
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/false);
  for (auto &library : libraries)
    if (library->library.path == path)
      return library.get();
  llvm::Expected<OpenLibrary> opened = OpenLibrary::open(path);
  if (!opened)
    return function->emitError()
           << "'@" << function.getName() << "' names a library in "
           << kExternName << ": " << llvm::toString(opened.takeError());
  libraries.push_back(std::make_unique<OpenLibrary>(std::move(*opened)));
  return libraries.back().get();
}

LogicalResult LibraryFinder::add(func::FuncOp function) {
  FailureOr<ExternFunction> read = readExtern(function);
  if (failed(read))
    return failure();
  if (read->library.empty())
    return function->emitError()
           << "'@" << function.getName() << "' names no library in "
           << kExternName << " where the function '" << read->symbol
           << "' is; expected library = \"..\", an object file, archive or "
              "shared library";
  FailureOr<OpenLibrary *> library = open(function, read->library);
  if (failed(library))
    return failure();
  if (!(*library)->defined.contains(read->symbol)) {
    SmallVector<StringRef> known;
    for (StringRef name : (*library)->defined.keys())
      known.push_back(name);
    llvm::sort(known);
    return function->emitError()
           << "'@" << function.getName() << "' is the extern function '"
           << read->symbol << "', which '" << (*library)->library.path
           << "' does not define" << nameHint(read->symbol, known);
  }
  std::vector<std::string> &symbols = (*library)->library.symbols;
  if (!llvm::is_contained(symbols, read->symbol))
    symbols.push_back(read->symbol);
  functions.push_back({function, std::move(*read)});
  return success();
}

/// Refuses functions that several libraries define: a linker would use the
/// first.
LogicalResult LibraryFinder::verifyUnique() {
  for (auto &[function, read] : functions) {
    SmallVector<StringRef> paths;
    for (auto &library : libraries)
      if (library->defined.contains(read.symbol))
        paths.push_back(library->library.path);
    if (paths.size() > 1)
      return function->emitError()
             << "'@" << function.getName() << "' is the extern function '"
             << read.symbol << "', which both '" << paths[0] << "' and '"
             << paths[1] << "' define; rename one of them";
  }
  return success();
}

std::vector<ExternLibrary> LibraryFinder::take() {
  std::vector<ExternLibrary> taken;
  for (auto &library : libraries)
    taken.push_back(std::move(library->library));
  return taken;
}

FailureOr<std::vector<ExternLibrary>>
run::findExternLibraries(ModuleOp module, StringRef folder) {
  LibraryFinder finder(folder);
  for (auto function : module.getOps<func::FuncOp>())
    if (isExtern(function) &&
        !SymbolTable::symbolKnownUseEmpty(function, module) &&
        failed(finder.add(function)))
      return failure();
  if (failed(finder.verifyUnique()))
    return failure();
  return finder.take();
}
