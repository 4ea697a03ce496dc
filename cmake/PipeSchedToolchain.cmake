# Rejects toolchains that are known not to work, with the reason, before the build starts.

# Some of MLIR's TypeIDs are resolved by the spelling of __PRETTY_FUNCTION__,
# which g++ spells differently from the clang that built the shared libMLIR.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT PIPESCHED_STATIC)
  message(FATAL_ERROR
    "PipeSched cannot link the shared libMLIR with "
    "${CMAKE_CXX_COMPILER_ID} (${CMAKE_CXX_COMPILER}): its TypeIDs would not "
    "match those of the library, which clang built. Use "
    "`cmake --preset dev`, which picks clang++-22 (apt package clang-22).")
endif()

find_program(PIPESCHED_LLD ld.lld-22)
if(NOT PIPESCHED_LLD)
  message(FATAL_ERROR "ld.lld-22 not found: install the apt package lld-22.")
endif()
set(LLVM_USE_LINKER lld-22)
