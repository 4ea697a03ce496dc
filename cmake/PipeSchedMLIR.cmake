# Finds LLVM and MLIR 22, and sets link mode, assertions and output folders,
# which an out-of-tree project sets after find_package.

set(PIPESCHED_MLIR_VERSION 22.1)

find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(FATAL_ERROR "Python 3.9 not found: install the apt package python3.")
endif()

find_package(MLIR ${PIPESCHED_MLIR_VERSION} QUIET CONFIG)
if(NOT MLIR_FOUND)
  if(MLIR_CONSIDERED_VERSIONS)
    message(FATAL_ERROR
      "PipeSched needs MLIR ${PIPESCHED_MLIR_VERSION}, found "
      "${MLIR_CONSIDERED_VERSIONS} (${MLIR_CONSIDERED_CONFIGS}). Install the "
      "apt packages libmlir-22-dev, llvm-22-dev and mlir-22-tools, and set "
      "CMAKE_PREFIX_PATH=/usr/lib/llvm-22.")
  endif()
  message(FATAL_ERROR
    "MLIR ${PIPESCHED_MLIR_VERSION} not found: install the apt packages "
    "libmlir-22-dev, llvm-22-dev and mlir-22-tools, and set "
    "CMAKE_PREFIX_PATH=/usr/lib/llvm-22.")
endif()
message(STATUS "Using MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")

function(pipesched_require_file path package)
  if(NOT EXISTS ${path})
    message(FATAL_ERROR "${path} not found: install the apt package ${package}.")
  endif()
endfunction()
pipesched_require_file(${LLVM_TOOLS_BINARY_DIR}/mlir-tblgen mlir-22-tools)
pipesched_require_file(${LLVM_TOOLS_BINARY_DIR}/FileCheck llvm-22-tools)
pipesched_require_file(${LLVM_TOOLS_BINARY_DIR}/lit llvm-22-tools)

# LLVMConfig overwrites these, so they are set after it.
set(LLVM_ENABLE_ASSERTIONS ${PIPESCHED_ENABLE_ASSERTIONS})
set(LLVM_EXTERNAL_LIT ${LLVM_TOOLS_BINARY_DIR}/lit)
set(LLVM_RUNTIME_OUTPUT_INTDIR ${PROJECT_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${PROJECT_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})

if(PIPESCHED_STATIC)
  set(MLIR_LINK_MLIR_DYLIB OFF)
  set(LLVM_LINK_LLVM_DYLIB OFF)
  include(StaticLLVM)
  pipesched_link_llvm_statically()
  # LLVMSupport links libz3 and other libraries that PipeSched does not use.
  add_link_options(-Wl,--as-needed $<$<LINK_LANGUAGE:CXX>:-static-libstdc++>
    -static-libgcc)
else()
  set(MLIR_LINK_MLIR_DYLIB ON)
  set(LLVM_LINK_LLVM_DYLIB ON)
  # Installed tools look for libMLIR in the folder that it was linked from.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(GNUInstallDirs)
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${LLVM_DEFINITIONS_LIST})
