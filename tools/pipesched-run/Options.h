//===- Options.h - Command line of pipesched-run ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of the user. docs/Run.md explains them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_OPTIONS_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_OPTIONS_H

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Support/EnumOptions.h"
#include "llvm/Support/CommandLine.h"
#include <memory>

namespace pipesched::run {

namespace cl = llvm::cl;

enum class Backend { Loopback, Mpi };
enum class Messages { Default, Buffered, Rendezvous };
enum class Emit { Nothing, Llvm, Object, Executable };

} // namespace pipesched::run

namespace pipesched {
template <>
struct EnumNames<run::Backend> {
  static constexpr EnumName<run::Backend> values[] = {
      {run::Backend::Loopback, "loopback", "A thread per worker, here"},
      {run::Backend::Mpi, "mpi", "A process per worker, by mpirun"}};
};
template <>
struct EnumNames<run::Messages> {
  static constexpr EnumName<run::Messages> values[] = {
      {run::Messages::Default, "default",
       "Rendezvous; under MPI as it decides"},
      {run::Messages::Buffered, "buffered", "A send copies its data away"},
      {run::Messages::Rendezvous, "rendezvous",
       "A send ends when its receive has the data"}};
};
template <>
struct EnumNames<run::Emit> {
  static constexpr EnumName<run::Emit> values[] = {
      {run::Emit::Nothing, "nothing", "Run the schedule"},
      {run::Emit::Llvm, "llvm", "LLVM IR as text"},
      {run::Emit::Object, "object", "An object file"},
      {run::Emit::Executable, "executable", "A program of the backend"}};
};
} // namespace pipesched

namespace pipesched::run {

/// Constructed in main, after the options of libLLVM are removed: some have the
/// same names, and none is needed here.
struct Options {
  Options();

  /// Checks for options that contradict each other.
  llvm::Error check() const;
  /// Returns the options of the family. Errors: a value that the option does
  /// not take; an option that the family does not have.
  llvm::Expected<FamilyOptions> familyOptionsFor(const Family &family) const;

  cl::OptionCategory category{"pipesched-run options"};
  cl::opt<std::string> input{cl::Positional, cl::cat(category), cl::init("-"),
                             cl::desc("<model.mlir; -: standard input>")};

  // Schedule
  cl::opt<std::string> schedule{
      "schedule", cl::cat(category), cl::value_desc("family"),
      cl::desc("Make the rows of this family; without it, the rows that the "
               "file has")};
  cl::opt<int64_t> workers{"workers", cl::cat(category), cl::init(0),
                           cl::desc("Workers (default: those of the file)")};
  cl::opt<int64_t> microbatches{
      "microbatches", cl::cat(category), cl::init(0),
      cl::desc("Microbatches of a step (default: those of the file)")};
  cl::opt<std::string> select{
      "select", cl::cat(category), cl::value_desc("name"),
      cl::desc("The schedule or program to run, of a file with several")};
  cl::opt<std::string> pipeline{
      "pipeline", cl::cat(category), cl::value_desc("passes"),
      cl::desc("Passes that change the schedule, such as "
               "'pipe-add-recompute,pipe-add-offload'")};
  cl::opt<std::string> stagePipeline{
      "stage-pipeline", cl::cat(category), cl::value_desc("passes"),
      cl::desc("Passes that change the functions of stages before they are "
               "compiled, such as 'func.func(linalg-fuse-elementwise-ops)'")};
  cl::list<std::string> passPlugins{
      "load-pass-plugin", cl::cat(category), cl::value_desc("file"),
      cl::desc("Load the passes of this plugin, for --pipeline and "
               "--stage-pipeline")};
  cl::list<std::string> dialectPlugins{
      "load-dialect-plugin", cl::cat(category), cl::value_desc("file"),
      cl::desc("Load the dialects of this plugin")};
  cl::opt<bool> noUpdate{
      "no-update", cl::cat(category),
      cl::desc("Do not step the parameters; gradients of replicas are then "
               "not summed either")};
  cl::opt<ProgramForm> form{"form", cl::cat(category),
                            cl::init(ProgramForm::Table),
                            cl::desc("How instructions are written"),
                            enumOptionValuesWithDefault<ProgramForm::Table>()};
  cl::opt<std::string> blas{
      "blas", cl::cat(category), cl::value_desc("library"),
      cl::desc("The BLAS library that multiplies matrices, such as "
               "libopenblas.so.0; none: plain loops (default: PIPESCHED_BLAS, "
               "else the first that is found)")};

  // Run
  cl::opt<Backend> backend{"backend", cl::cat(category),
                           cl::init(Backend::Loopback),
                           cl::desc("What carries messages"),
                           enumOptionValuesWithDefault<Backend::Loopback>()};
  cl::opt<int64_t> steps{"steps", cl::cat(category), cl::init(3),
                         cl::desc("Training steps (default 3)")};
  cl::opt<Messages> messages{"messages", cl::cat(category),
                             cl::init(Messages::Default),
                             cl::desc("When a send ends"),
                             enumOptionValuesWithDefault<Messages::Default>()};
  cl::opt<bool> blocking{"blocking", cl::cat(category),
                         cl::desc("A send returns when it has ended")};
  cl::opt<int64_t> timeout{
      "timeout", cl::cat(category), cl::init(0), cl::value_desc("seconds"),
      cl::desc("End a run that takes longer, and name the workers that do not "
               "answer (default 0: no limit)")};
  cl::opt<std::string> mpicc{"mpicc", cl::cat(category), cl::init("mpicc"),
                             cl::desc("The compiler of MPI")};
  cl::opt<std::string> mpirun{
      "mpirun", cl::cat(category), cl::init("mpirun"),
      cl::desc("The launcher of MPI, with options if it needs some")};
  cl::opt<std::string> cc{"cc", cl::cat(category), cl::init("cc"),
                          cl::desc("The C compiler of --emit=executable")};
  cl::opt<std::string> runtime{
      "runtime", cl::cat(category), cl::value_desc("folder"),
      cl::desc("Sources of the runtime (default: those installed with this "
               "tool)")};

  // Parameters
  cl::opt<std::string> parameters{
      "parameters", cl::cat(category), cl::value_desc("folder"),
      cl::desc("Start from the files stage<S>.<name>.npy of this folder")};
  cl::opt<std::string> saveParameters{
      "save-parameters", cl::cat(category), cl::value_desc("folder"),
      cl::desc("Write the parameters after the last step, as --parameters "
               "reads them")};
  cl::opt<uint64_t> seed{
      "seed", cl::cat(category), cl::init(0),
      cl::desc("Of random parameters, where stages have no init (default 0)")};

  // Results
  cl::opt<bool> checks{
      "check", cl::cat(category),
      cl::desc("Compare losses, gradients, parameters and states with the "
               "unpipelined model")};
  cl::opt<double> tolerance{
      "tolerance", cl::cat(category), cl::init(1e-5),
      cl::desc("Relative error that --check accepts (default 1e-5)")};
  cl::opt<std::string> trace{
      "trace", cl::cat(category), cl::value_desc("file"),
      cl::desc("Write the median step, measured beside predicted, for "
               "Perfetto")};
  cl::opt<std::string> profile{"profile", cl::cat(category),
                               cl::value_desc("file"),
                               cl::desc("Predict from the times of this file")};
  cl::opt<bool> pace{
      "pace", cl::cat(category),
      cl::desc("Let cells, messages, copies and sums last as long as they are "
               "predicted to, by sleeping: tries schedules on fewer cores than "
               "workers")};
  cl::opt<std::string> writeProfile{
      "write-profile", cl::cat(category), cl::value_desc("file"),
      cl::desc("Write the measured times as a profile")};
  cl::opt<std::string> writeMeasurement{
      "write-measurement", cl::cat(category), cl::value_desc("file"),
      cl::desc("Write the times of all instructions, for Measurement.from_file "
               "of the Python package")};
  cl::opt<Emit> emit{"emit", cl::cat(category), cl::init(Emit::Nothing),
                     cl::desc("Write this to -o and do not run"),
                     enumOptionValuesWithDefault<Emit::Nothing>()};
  cl::opt<std::string> output{"o", cl::cat(category), cl::init("-"),
                              cl::value_desc("file"),
                              cl::desc("Output of --emit (default -)")};

private:
  llvm::Error checkEmit() const;
  llvm::Error checkFiles() const;

  /// One option for each of familyOptions(), in their order.
  std::vector<std::unique_ptr<cl::opt<std::string>>> familyValues;
};

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_OPTIONS_H
