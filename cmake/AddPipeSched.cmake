# Functions for the project's kinds of targets: thin layers over the functions
# of LLVM and MLIR.

# add_pipesched_library(name sources... [DEPENDS tablegen targets...]
#   [LINK_LIBS PipeSched libraries...] [MLIR_LIBS MLIR libraries...])
# MLIR_LIBS means the shared libMLIR in dynamic mode.
function(add_pipesched_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS;MLIR_LIBS" ${ARGN})
  add_mlir_library(${name} ${ARG_UNPARSED_ARGUMENTS}
    EXCLUDE_FROM_LIBMLIR DISABLE_INSTALL
    DEPENDS ${ARG_DEPENDS}
    LINK_LIBS PUBLIC ${ARG_LINK_LIBS})
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PUBLIC ${ARG_MLIR_LIBS})
  endif()
  pipesched_use_headers(${name} ${ARG_MLIR_LIBS})
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Libraries"
    UNITY_BUILD "${PIPESCHED_UNITY_BUILD}" UNITY_BUILD_BATCH_SIZE 8)
  install(TARGETS ${name} EXPORT PipeSchedTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

# add_pipesched_tool(name sources... [LINK_LIBS ...] [MLIR_LIBS ...]
#   [LLVM_COMPONENTS ...]): LLVM_COMPONENTS are the components beyond Support.
function(add_pipesched_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;LLVM_COMPONENTS;MLIR_LIBS" ${ARGN})
  set(LLVM_LINK_COMPONENTS Support ${ARG_LLVM_COMPONENTS})
  add_llvm_executable(${name} PARTIAL_SOURCES_INTENDED
    ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS})
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PRIVATE ${ARG_MLIR_LIBS})
  endif()
  pipesched_use_headers(${name} ${ARG_MLIR_LIBS})
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Tools")
  install(TARGETS ${name} EXPORT PipeSchedTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# add_pipesched_unittest(name sources... [WITHOUT_LLVM] [LINK_LIBS ...]
#   [MLIR_LIBS ...]): a GoogleTest executable that lit finds and runs; names end
# in `Tests`. The target `all` does not build it; `pipesched-unittests` does.
# Without LLVM it uses no precompiled headers, since LLVM's headers need LLVM's
# symbols.
function(add_pipesched_unittest name)
  cmake_parse_arguments(ARG "WITHOUT_LLVM" "" "LINK_LIBS;MLIR_LIBS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS} GTest::gtest_main)
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PRIVATE ${ARG_MLIR_LIBS})
  endif()
  if(NOT ARG_WITHOUT_LLVM)
    pipesched_use_headers(${name} TESTS ${ARG_MLIR_LIBS})
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
  pipesched_use_headers(${name} ${ARG_MLIR_LIBS})
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Benchmarks")
endfunction()
