# Functions for the project's kinds of targets: thin layers over those of LLVM
# and MLIR.

# pipesched_precompile_headers(target [libraries...]): precompiles the headers
# of LLVM once per target, and those of MLIR and GoogleTest if the target links
# them. Otherwise they take most of the time of a translation unit: 5 of 6
# seconds for a pass. Sources must also compile without them
# (PIPESCHED_PRECOMPILE_HEADERS=OFF).
function(pipesched_precompile_headers target)
  if(NOT PIPESCHED_PRECOMPILE_HEADERS)
    return()
  endif()
  set(headers
    <llvm/ADT/STLExtras.h> <llvm/ADT/StringExtras.h> <llvm/Support/Error.h>
    <llvm/Support/FormatVariadic.h> <llvm/Support/raw_ostream.h>
    <algorithm> <optional> <string> <vector>)
  if("MLIRIR" IN_LIST ARGN)
    list(APPEND headers
      <mlir/Bytecode/BytecodeOpInterface.h> <mlir/IR/Builders.h>
      <mlir/IR/BuiltinOps.h> <mlir/IR/DialectImplementation.h>
      <mlir/IR/OpImplementation.h>
      <mlir/Interfaces/SideEffectInterfaces.h>)
    if("MLIRPass" IN_LIST ARGN)
      list(APPEND headers <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h>)
    endif()
  endif()
  if("GTest::gtest_main" IN_LIST ARGN)
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# pipesched_reuse_headers(target [MLIR libraries...]): uses the precompiled
# headers of a library. A program has so few sources that precompiling its own
# headers would save no time. To use MLIR's headers, it must link MLIR's
# symbols.
function(pipesched_reuse_headers target)
  set(library PipeSchedDescription)
  if(ARGN)
    set(library PipeSchedTransforms)
  endif()
  if(PIPESCHED_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${library})
  endif()
endfunction()

# add_pipesched_library(name sources... [DEPENDS tablegen targets...]
#   [LINK_LIBS PipeSched libraries...] [MLIR_LIBS MLIR libraries...])
# MLIR_LIBS stand for the shared libMLIR in dynamic mode.
function(add_pipesched_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS;MLIR_LIBS" ${ARGN})
  add_mlir_library(${name} ${ARG_UNPARSED_ARGUMENTS}
    EXCLUDE_FROM_LIBMLIR DISABLE_INSTALL
    DEPENDS ${ARG_DEPENDS}
    LINK_LIBS PUBLIC ${ARG_LINK_LIBS})
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PUBLIC ${ARG_MLIR_LIBS})
  endif()
  pipesched_precompile_headers(${name} ${ARG_MLIR_LIBS})
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Libraries")
  install(TARGETS ${name} EXPORT PipeSchedTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

# add_pipesched_tool(name sources... [LINK_LIBS ...] [MLIR_LIBS ...]
#   [LLVM_COMPONENTS ...]): LLVM_COMPONENTS are those beyond Support.
function(add_pipesched_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;LLVM_COMPONENTS;MLIR_LIBS" ${ARGN})
  set(LLVM_LINK_COMPONENTS Support ${ARG_LLVM_COMPONENTS})
  add_llvm_executable(${name} PARTIAL_SOURCES_INTENDED
    ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS})
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PRIVATE ${ARG_MLIR_LIBS})
  endif()
  pipesched_reuse_headers(${name} ${ARG_MLIR_LIBS})
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Tools")
  install(TARGETS ${name} EXPORT PipeSchedTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# add_pipesched_unittest(name sources... [WITHOUT_LLVM] [LINK_LIBS ...]): a
# GoogleTest executable that lit finds and runs; names end in `Tests`. Without
# LLVM it precompiles no headers, since those of LLVM need LLVM's symbols.
function(add_pipesched_unittest name)
  cmake_parse_arguments(ARG "WITHOUT_LLVM" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS} GTest::gtest_main)
  if(NOT ARG_WITHOUT_LLVM)
    pipesched_precompile_headers(${name} GTest::gtest_main)
  endif()
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Tests"
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_property(GLOBAL APPEND PROPERTY PIPESCHED_UNITTESTS ${name})
endfunction()

# add_pipesched_doc(output.md file.td generator arguments...): one generated
# reference page under docs/ of the build folder.
function(add_pipesched_doc output definitions)
  set(LLVM_TARGET_DEFINITIONS ${definitions})
  tablegen(MLIR ${output} ${ARGN})
  set(page ${PROJECT_BINARY_DIR}/docs/${output})
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different
      ${CMAKE_CURRENT_BINARY_DIR}/${output} ${page}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${output})
  add_custom_target(pipesched-doc-${output} DEPENDS ${page})
  add_dependencies(pipesched-doc pipesched-doc-${output})
endfunction()

# add_pipesched_benchmark(name sources... [LINK_LIBS ...] [MLIR_LIBS ...]): a
# Google Benchmark executable among the tools, not installed.
function(add_pipesched_benchmark name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;MLIR_LIBS" ${ARGN})
  set(LLVM_LINK_COMPONENTS Support)
  add_llvm_executable(${name} PARTIAL_SOURCES_INTENDED
    ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE
    ${ARG_LINK_LIBS} benchmark::benchmark)
  mlir_target_link_libraries(${name} PRIVATE ${ARG_MLIR_LIBS})
  pipesched_reuse_headers(${name} ${ARG_MLIR_LIBS})
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Benchmarks")
endfunction()
