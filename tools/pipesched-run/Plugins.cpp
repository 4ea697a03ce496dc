//===- Plugins.cpp - Passes and dialects of others ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plugin calls the MLIR of the tool. If it is linked to libMLIR, it loads a
// second MLIR into a tool with MLIR inside, and would register its passes
// there.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/MakeError.h"
#include "Prepare.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;

#ifdef PIPESCHED_STATIC
/// Whether the file is a shared library for which the dynamic linker would load
/// libMLIR; false if it cannot be read.
static llvm::Expected<bool> needsMlir(const llvm::object::ELF64LEFile &elf) {
  auto entries = elf.dynamicEntries();
  if (!entries)
    return entries.takeError();
  const uint8_t *names = nullptr;
  for (const auto &entry : *entries) {
    if (entry.d_tag != llvm::ELF::DT_STRTAB)
      continue;
    auto address = elf.toMappedAddr(entry.d_un.d_ptr);
    if (!address)
      return address.takeError();
    names = *address;
  }
  return names && llvm::any_of(*entries, [&](const auto &entry) {
           return entry.d_tag == llvm::ELF::DT_NEEDED &&
                  StringRef(reinterpret_cast<const char *>(names) +
                            entry.d_un.d_val)
                      .starts_with("libMLIR.so");
         });
}

static bool needsMlir(const std::string &file) {
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return false;
  auto object = llvm::object::ELF64LEFile::create((*buffer)->getBuffer());
  llvm::Expected<bool> needs = object ? needsMlir(*object) : object.takeError();
  if (needs)
    return *needs;
  llvm::consumeError(needs.takeError());
  return false;
}
#else
static bool needsMlir(const std::string &) { return false; }
#endif

template <typename Plugin>
static llvm::Expected<Plugin> load(const std::string &file) {
  if (needsMlir(file))
    return makeError("'" + file +
                     "' is linked to libMLIR, but this program has MLIR "
                     "inside; link the plugin without it, so that it takes "
                     "the program's");
  return Plugin::load(file);
}

llvm::Error run::loadPlugins(const Options &options,
                             mlir::DialectRegistry &registry) {
  for (const std::string &file : options.passPlugins) {
    llvm::Expected<mlir::PassPlugin> plugin = load<mlir::PassPlugin>(file);
    if (!plugin)
      return makeError("--load-pass-plugin: " +
                       llvm::toString(plugin.takeError()));
    plugin->registerPassRegistryCallbacks();
  }
  for (const std::string &file : options.dialectPlugins) {
    llvm::Expected<mlir::DialectPlugin> plugin =
        load<mlir::DialectPlugin>(file);
    if (!plugin)
      return makeError("--load-dialect-plugin: " +
                       llvm::toString(plugin.takeError()));
    plugin->registerDialectRegistryCallbacks(registry);
  }
  return llvm::Error::success();
}
