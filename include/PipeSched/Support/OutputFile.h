//===- OutputFile.h - Files that appear whole or not at all -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outputs that are replaced as a whole: the old file stays until the new
// contents are complete, even if the program that writes them fails.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_OUTPUTFILE_H
#define PIPESCHED_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace pipesched {

/// An output that is written to a temporary file, its part, and replaces the
/// file at its path when it is kept. Until then that file can still be read.
///
/// The part is a file in the same folder, which is renamed to the output and
/// takes its permissions and, if the system lets us, its owner; a symbolic link
/// keeps pointing to the file. A file that is not regular (a FIFO, a device, an
/// inherited descriptor such as /dev/stdout) is opened at once and gets the
/// contents when they are complete. A signal that ends the process removes the
/// part, except SIGKILL.
class OutputFile {
public:
  /// Errors: `path` is a folder or cannot be written, or its folder cannot.
  static llvm::Expected<std::unique_ptr<OutputFile>> open(llvm::StringRef path);

  /// Removes the part unless it was kept.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// The file to write the contents to, for code that opens files itself.
  llvm::StringRef getPart() const { return part; }

  /// Makes these the contents of the part.
  llvm::Error write(llvm::StringRef contents);

  /// Puts the contents of the part in the place of the file. Errors: the folder
  /// was changed since, or the contents cannot be written.
  llvm::Error keep();

private:
  explicit OutputFile(llvm::StringRef path) : path(path.str()) {}
  llvm::Error makePart(llvm::StringRef target);
  llvm::Error openSpecial(llvm::StringRef target);
  llvm::Error copyToSpecial();
  llvm::Error fail(std::error_code code) const;

  std::string path;              // as given, for messages
  llvm::SmallString<128> target; // with links resolved; of regular files
  llvm::SmallString<128> part;
  int special = -1; // the descriptor of a file that is not regular
};

/// Whether two paths name the same regular file, which may not exist yet: by
/// another spelling, a symbolic link or a hard link. `-` and files that are not
/// regular are never the same.
bool isSameFile(llvm::StringRef a, llvm::StringRef b);

/// Writes a file whole or not at all; `-` is standard output.
llvm::Error writeWholeFile(llvm::StringRef path, llvm::StringRef contents);

/// Runs a tool's main function, which writes to the value of its option `-o`,
/// so that the file appears only if the function returns 0. Errors are written
/// to standard error and make the result 1.
int runWithWholeOutput(int argc, char **argv,
                       llvm::function_ref<int(int, char **)> run);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_OUTPUTFILE_H
