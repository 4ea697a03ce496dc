//===- Native.cpp - From IR to machine code -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floating-point operations are neither fused nor reordered, so that the same
// functions give the same bits in all places.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/Native.h"
#include "PipeSched-rt/Runtime.h"
#include "PipeSched/Support/MakeError.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalAlias.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;
namespace orc = llvm::orc;
using llvm::Constant;

//===----------------------------------------------------------------------===//
// The data of a training
//===----------------------------------------------------------------------===//

/// Losses must be floats; others are not compiled.
static int32_t lossTypeOf(mlir::Type type) {
  return llvm::TypeSwitch<mlir::Type, int32_t>(type)
      .Case([](mlir::Float16Type) { return PIPESCHED_RT_F16; })
      .Case([](mlir::BFloat16Type) { return PIPESCHED_RT_BF16; })
      .Case([](mlir::Float32Type) { return PIPESCHED_RT_F32; })
      .Case([](mlir::Float64Type) { return PIPESCHED_RT_F64; });
}

namespace {

class TrainingWriter {
public:
  explicit TrainingWriter(llvm::Module &module)
      : module(module), i64(llvm::Type::getInt64Ty(module.getContext())),
        pointer(llvm::PointerType::getUnqual(module.getContext())) {}

  Constant *number(int64_t value) {
    return llvm::ConstantInt::getSigned(i64, value);
  }
  Constant *structOf(llvm::ArrayRef<Constant *> fields) {
    return llvm::ConstantStruct::getAnon(fields);
  }
  llvm::GlobalVariable *add(Constant *value, const llvm::Twine &name = "",
                            bool isPublic = false);
  /// A pointer to an array; null if it is empty.
  Constant *arrayOf(llvm::Type *type, llvm::ArrayRef<Constant *> elements);
  Constant *numbers(llvm::ArrayRef<int64_t> values);
  Constant *pieces(const Training &training, int64_t &count);
  Constant *paces(const Training &training);

private:
  Constant *bytes(llvm::ArrayRef<char> data);

  llvm::Module &module;
  llvm::Type *i64, *pointer;
  /// By the address of the bytes.
  llvm::DenseMap<const char *, Constant *> known;
};

} // namespace

llvm::GlobalVariable *
TrainingWriter::add(Constant *value, const llvm::Twine &name, bool isPublic) {
  return new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                                  isPublic ? llvm::GlobalValue::ExternalLinkage
                                           : llvm::GlobalValue::PrivateLinkage,
                                  value, name);
}

Constant *TrainingWriter::arrayOf(llvm::Type *type,
                                  llvm::ArrayRef<Constant *> elements) {
  if (elements.empty())
    return llvm::Constant::getNullValue(pointer);
  return add(llvm::ConstantArray::get(
      llvm::ArrayType::get(type, elements.size()), elements));
}

Constant *TrainingWriter::numbers(llvm::ArrayRef<int64_t> values) {
  std::vector<Constant *> elements;
  for (int64_t value : values)
    elements.push_back(number(value));
  return arrayOf(i64, elements);
}

/// Parameters may be larger than the range of near addresses. They are reached
/// only through pointers of 64 bits, so they may be anywhere.
Constant *TrainingWriter::bytes(llvm::ArrayRef<char> data) {
  Constant *&found = known[data.data()];
  if (!found) {
    llvm::GlobalVariable *global = add(llvm::ConstantDataArray::getRaw(
        llvm::StringRef(data.data(), data.size()), data.size(),
        llvm::Type::getInt8Ty(module.getContext())));
    global->setCodeModel(llvm::CodeModel::Large);
    found = global;
  }
  return found;
}

/// PipeschedPiece for each parameter of each worker.
Constant *TrainingWriter::pieces(const Training &training, int64_t &count) {
  std::vector<Constant *> all;
  for (auto [worker, layout] : llvm::enumerate(training.layouts))
    for (const PersistentTensor &tensor : layout.tensors) {
      if (tensor.kind != PersistentKind::Param)
        continue;
      llvm::ArrayRef<char> data = training.start.bytesOf(
          *training.model.find(tensor.kind, tensor.stage, tensor.index));
      if (llvm::any_of(data, [](char byte) { return byte != 0; }))
        all.push_back(structOf({number(worker), number(tensor.offset),
                                number(tensor.bytes), bytes(data)}));
    }
  count = all.size();
  return arrayOf(all.empty() ? i64 : all.front()->getType(), all);
}

Constant *TrainingWriter::paces(const Training &training) {
  std::vector<Constant *> workers;
  for (const std::vector<int64_t> &worker : training.paces)
    workers.push_back(numbers(worker));
  return arrayOf(pointer, workers);
}

/// Adds a constant with this name for the runtime, and all data that it points
/// to. Parameters that several workers hold are stored once, parameters of
/// zeros not at all.
static void addTraining(llvm::Module &module, const Training &training,
                        llvm::StringRef name) {
  TrainingWriter writer(module);
  std::vector<int64_t> offsets;
  mlir::RankedTensorType losses;
  for (const PersistentLayout &layout : training.layouts) {
    offsets.push_back(-1);
    for (const PersistentTensor &tensor : layout.tensors)
      if (tensor.kind == PersistentKind::Loss) {
        offsets.back() = tensor.offset;
        losses = tensor.type;
      }
  }
  int64_t count = 0;
  Constant *pieces = writer.pieces(training, count);
  writer.add(
      writer.structOf({writer.number(training.steps), writer.number(count),
                       pieces, writer.number(losses.getNumElements()),
                       writer.number(lossTypeOf(losses.getElementType())),
                       writer.numbers(offsets), writer.paces(training)}),
      name, /*isPublic=*/true);
}

void run::initializeNative() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> makeMachine() {
  llvm::Expected<orc::JITTargetMachineBuilder> builder =
      orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder.takeError();
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  builder->setRelocationModel(llvm::Reloc::PIC_);
  // ORC's code model is large: each constant would be loaded through a
  // register.
  builder->setCodeModel(llvm::CodeModel::Small);
  return builder->createTargetMachine();
}

namespace {
struct OptimizedModule {
  // The module refers to the context, so it is destroyed first.
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};
} // namespace

/// LLVM's -O2 without unrolling. Kernels are functions of hundreds of loops,
/// and for each unrolled loop LLVM analyzes all others again, which took most
/// of the time to compile a transformer.
static void optimizeIR(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopVectorization = tuning.SLPVectorization = true;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

static llvm::Error verifyFree(const llvm::Module &module, StringRef name) {
  return module.getNamedValue(name)
             ? makeError("'" + name +
                         "' is a name of the runtime; rename the function")
             : llvm::Error::success();
}

static llvm::Error addAlias(llvm::Module &module, const NativeAlias &alias) {
  llvm::Function *function = module.getFunction(alias.function);
  if (!function)
    return makeError("the module has no function '" + alias.function + "'");
  if (llvm::Error error = verifyFree(module, alias.name))
    return error;
  llvm::GlobalAlias::create(alias.name, function);
  return llvm::Error::success();
}

static llvm::Error addEntries(llvm::Module &module,
                              const NativeEntries &entries) {
  for (const NativeAlias &alias : entries.aliases)
    if (llvm::Error error = addAlias(module, alias))
      return error;
  if (llvm::Error error = verifyFree(module, entries.trainingName))
    return error;
  addTraining(module, entries.training, entries.trainingName);
  return llvm::Error::success();
}

static llvm::Expected<OptimizedModule>
optimize(mlir::ModuleOp module, const NativeEntries *entries = nullptr) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = makeMachine();
  if (!machine)
    return machine.takeError();
  OptimizedModule result;
  result.context = std::make_unique<llvm::LLVMContext>();
  result.machine = std::move(*machine);
  result.module = mlir::translateModuleToLLVMIR(module, *result.context);
  if (!result.module)
    return makeError("the module cannot be translated to LLVM IR");
  result.module->setTargetTriple(result.machine->getTargetTriple());
  result.module->setDataLayout(result.machine->createDataLayout());
  // By default LLVM limits vectors to 256 bits, because wider ones reduce the
  // clock of some processors.
  for (llvm::Function &function : *result.module)
    function.addFnAttr("prefer-vector-width", "512");
  if (entries)
    if (llvm::Error error = addEntries(*result.module, *entries))
      return std::move(error);
  optimizeIR(*result.module, *result.machine);
  return result;
}

llvm::Expected<std::string> run::emitLLVM(mlir::ModuleOp module) {
  llvm::Expected<OptimizedModule> optimized = optimize(module);
  if (!optimized)
    return optimized.takeError();
  std::string text;
  llvm::raw_string_ostream(text) << *optimized->module;
  return text;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
run::compileObject(mlir::ModuleOp module, const NativeEntries *entries) {
  llvm::Expected<OptimizedModule> optimized = optimize(module, entries);
  if (!optimized)
    return optimized.takeError();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  if (optimized->machine->addPassesToEmitFile(
          passes, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return makeError("this machine has no object files");
  passes.run(*optimized->module);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(
      std::move(bytes), "schedule.o", /*RequiresNullTerminator=*/false);
}

#if defined(__x86_64__)
// LLVM calls these functions of the compiler's library if the processor does
// not convert 16-bit floats itself.
extern "C" {
void __extendhfsf2();
void __truncdfhf2();
void __truncsfhf2();
}
static const NativeSymbol kCompilerLibrary[] = {
    {"__extendhfsf2", reinterpret_cast<void *>(&__extendhfsf2)},
    {"__truncdfhf2", reinterpret_cast<void *>(&__truncdfhf2)},
    {"__truncsfhf2", reinterpret_cast<void *>(&__truncsfhf2)},
};
#else
static const llvm::ArrayRef<NativeSymbol> kCompilerLibrary;
#endif

/// Lets compiled code call the functions of a library that stages name.
/// Functions that these call in turn are found too.
static llvm::Error addLibrary(orc::LLJIT &jit, const ExternLibrary &library) {
  orc::JITDylib &code = jit.getMainJITDylib();
  if (library.kind == ExternLibrary::Kind::Object) {
    auto buffer = llvm::MemoryBuffer::getFile(library.path);
    if (!buffer)
      return makeError("cannot read '" + library.path +
                       "': " + buffer.getError().message());
    return jit.addObjectFile(std::move(*buffer));
  }
  if (library.kind == ExternLibrary::Kind::Archive) {
    auto generator = orc::StaticLibraryDefinitionGenerator::Load(
        jit.getObjLinkingLayer(), library.path.c_str());
    if (!generator)
      return generator.takeError();
    code.addGenerator(std::move(*generator));
    return llvm::Error::success();
  }
  orc::SymbolNameSet named;
  for (const std::string &symbol : library.symbols)
    named.insert(jit.mangleAndIntern(symbol));
  auto generator = orc::DynamicLibrarySearchGenerator::Load(
      library.path.c_str(), jit.getDataLayout().getGlobalPrefix(),
      [named](const orc::SymbolStringPtr &symbol) {
        return named.contains(symbol);
      });
  if (!generator)
    return generator.takeError();
  code.addGenerator(std::move(*generator));
  return llvm::Error::success();
}

llvm::Expected<LoadedObject>
LoadedObject::load(const llvm::MemoryBuffer &object,
                   llvm::ArrayRef<NativeSymbol> symbols,
                   llvm::ArrayRef<ExternLibrary> libraries) {
  llvm::Expected<std::unique_ptr<orc::LLJIT>> made =
      orc::LLJITBuilder().create();
  if (!made)
    return made.takeError();
  orc::LLJIT &jit = **made;
  orc::SymbolMap map;
  for (const NativeSymbol &symbol : llvm::concat<const NativeSymbol>(
           symbols, llvm::ArrayRef(kCompilerLibrary)))
    map[jit.mangleAndIntern(symbol.name)] = {
        orc::ExecutorAddr::fromPtr(symbol.address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error =
          jit.getMainJITDylib().define(orc::absoluteSymbols(std::move(map))))
    return std::move(error);
  for (const ExternLibrary &library : libraries)
    if (llvm::Error error = addLibrary(jit, library))
      return std::move(error);
  auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      jit.getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  jit.getMainJITDylib().addGenerator(std::move(*process));
  if (llvm::Error error = jit.addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(object.getBuffer())))
    return std::move(error);
  return LoadedObject(std::move(*made));
}
