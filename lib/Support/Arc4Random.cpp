//===- Arc4Random.cpp - Random numbers before glibc 2.36 ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM names temporary files with arc4random, which glibc has since version
// 2.36 and which is the only reason to need that version. With this definition,
// programs with LLVM linked in also run on glibc 2.35, which Ubuntu 22.04 has.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    std::abort(); // a read of 4 bytes is never interrupted (getrandom(2))
  return number;
}
