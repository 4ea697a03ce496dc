//===- ToLLVM.h - The pipeline pipesched-to-llvm ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles schedules and the functions of their stages to the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_TOLLVM_H
#define PIPESCHED_CONVERSION_TOLLVM_H

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include "mlir/Pass/PassOptions.h"

namespace pipesched {

/// The input of the pipeline.
enum class ToLLVMStart { Schedule, Program, Buffers };

template <>
struct EnumNames<ToLLVMStart> {
  static constexpr EnumName<ToLLVMStart> values[] = {
      {ToLLVMStart::Schedule, "schedule", "Schedules with rows"},
      {ToLLVMStart::Program, "program", "Programs without buffers"},
      {ToLLVMStart::Buffers, "buffers", "Programs with buffers"}};
};

struct ToLLVMOptions : mlir::PassPipelineOptions<ToLLVMOptions> {
  Option<ToLLVMStart> from{
      *this, "from", llvm::cl::desc("What the module holds"),
      llvm::cl::init(ToLLVMStart::Schedule), enumOptionValues<ToLLVMStart>()};
  Option<ProgramForm> form{
      *this, "form", llvm::cl::desc("How instructions are written"),
      llvm::cl::init(ProgramForm::Table), enumOptionValues<ProgramForm>()};
  Option<ReceivePlacement> receivePlacement{
      *this, "receive-placement",
      llvm::cl::desc("Where receives stand (convert-pipe-to-exec)"),
      llvm::cl::init(ReceivePlacement::Arrival),
      enumOptionValues<ReceivePlacement>()};
  Option<SendMode> sends{*this, "sends",
                         llvm::cl::desc("When a send ends, for the proof "
                                        "(exec-assign-buffers)"),
                         llvm::cl::init(SendMode::Rendezvous),
                         enumOptionValues<SendMode>()};
  Option<int64_t> inFlight{
      *this, "in-flight",
      llvm::cl::desc("Sends posted before a place is used again "
                     "(exec-assign-buffers)"),
      llvm::cl::init(2)};
  Option<int64_t> hostMemory{
      *this, "host-memory",
      llvm::cl::desc("Bytes of host memory of each worker, without limit where "
                     "negative (exec-assign-buffers)"),
      llvm::cl::init(-1)};
};

/// Adds the passes of `pipesched-to-llvm` to a manager of modules.
void buildToLLVMPipeline(mlir::OpPassManager &manager,
                         const ToLLVMOptions &options);

/// Adds passes that compute bf16 in f32 and round after each operation, in
/// plain integer code, and compute the math of narrow floats in f32. Without
/// them, LLVM calls functions that the libraries of some compilers lack. Then
/// adds a pass for the functions that lose precision in upstream's arithmetic.
void addNumberPasses(mlir::OpPassManager &manager);

/// Registers the pipeline in MLIR's global registry.
void registerToLLVMPipeline();

/// Registers the interfaces that its passes need in addition to dialects:
/// inlining, bufferization and deallocation of upstream ops. Stock tools
/// register them themselves.
void registerToLLVMInterfaces(mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_CONVERSION_TOLLVM_H
