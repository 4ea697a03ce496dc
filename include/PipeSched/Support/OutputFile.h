//===- OutputFile.h - Files that are replaced as a whole --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outputs that are replaced as a whole: the old file stays until the new
// contents are complete, even if the program fails while it writes them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_OUTPUTFILE_H
#define PIPESCHED_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace pipesched {

/// An output that is first written to a temporary file, its part, and replaces
/// the file at its path on keep(). Until then the old file can still be read.
///
/// The part is a file in the same folder. It is renamed to the output and gets
/// its permissions and, if the system allows it, its owner; a symbolic link
/// keeps pointing to the file. If the output is not a regular file (a FIFO, a
/// device, an inherited descriptor such as /dev/stdout), it is opened at once
/// and receives the contents when they are complete. A signal that ends the
/// process removes the part, except SIGKILL.
class OutputFile {
public:
  /// Creates the part. Errors: `path` is a folder or cannot be written, or its
  /// folder cannot.
  static llvm::Expected<std::unique_ptr<OutputFile>> open(llvm::StringRef path);

  /// Removes the part unless it was kept.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// The path of the part, for code that opens files itself.
  llvm::StringRef getPart() const { return part; }

  /// Writes these contents to the part.
  llvm::Error write(llvm::StringRef contents);

  /// Replaces the file by the part. Errors: the folder has changed since, or
  /// the contents cannot be written.
  llvm::Error keep();

private:
  explicit OutputFile(llvm::StringRef path) : path(path.str()) {}
  llvm::Error makePart(llvm::StringRef target);
  llvm::Error openSpecial(llvm::StringRef target);
  llvm::Error copyToSpecial();
  llvm::Error fail(std::error_code code) const;

  std::string path;              // for messages
  llvm::SmallString<128> target; // with links resolved; for regular files
  llvm::SmallString<128> part;
  int special = -1; // the descriptor of an output that is not a regular file
};

/// Whether two paths name the same regular file, which may not exist yet: by
/// another spelling, a symbolic link or a hard link. `-` and files that are not
/// regular never count as the same.
bool isSameFile(llvm::StringRef a, llvm::StringRef b);

/// Replaces a file as a whole; `-` is standard output.
llvm::Error writeWholeFile(llvm::StringRef path, llvm::StringRef contents);

/// Runs a tool's main function, which writes to the file of its option `-o`.
/// The file appears only if the function returns 0. Errors are written to
/// standard error and make the result 1.
int runWithWholeOutput(int argc, char **argv,
                       llvm::function_ref<int(int, char **)> run);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_OUTPUTFILE_H
