# Static linking against a distribution's MLIR.
#
# The MLIR archives are exported with the shared `LLVM` as their interface.
# Linking one of them would also link libLLVM.so, so the program would have two
# copies of LLVM. Therefore this file replaces that interface by the component
# archives. The linker takes only the needed objects from an archive, so one
# list fits all targets.

function(pipesched_link_llvm_statically)
  foreach(package ZLIB zstd)
    if(NOT ${package}_FOUND)
      message(FATAL_ERROR
        "Static linking needs ${package}: install the apt packages "
        "zlib1g-dev and libzstd-dev.")
    endif()
  endforeach()
  llvm_map_components_to_libnames(components
    Core Remarks Support SupportLSP)
  foreach(target ${MLIR_EXPORTED_TARGETS})
    if(NOT TARGET ${target})
      continue()
    endif()
    get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
    if(NOT "LLVM" IN_LIST libraries)
      continue()
    endif()
    list(REMOVE_ITEM libraries LLVM)
    list(APPEND libraries ${components})
    set_target_properties(${target} PROPERTIES
      INTERFACE_LINK_LIBRARIES "${libraries}")
  endforeach()
endfunction()

# pipesched_closure(result target): our libraries that a target links, itself
# included, each once.
function(pipesched_closure result target)
  set(found "")
  set(open ${target})
  while(open)
    list(POP_FRONT open next)
    if(NOT next MATCHES "^PipeSched" OR next IN_LIST found)
      continue()
    endif()
    list(APPEND found ${next})
    get_target_property(libraries ${next} INTERFACE_LINK_LIBRARIES)
    if(libraries)
      list(APPEND open ${libraries})
    endif()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# pipesched_link_shared_mlir(module target): links our archives that `target` names, and the shared
# libMLIR and libLLVM in place of the archives that these name. A module that a stock tool loads
# must share its MLIR and its C++ library.
function(pipesched_link_shared_mlir module target)
  find_library(PIPESCHED_LIBMLIR MLIR PATHS ${LLVM_LIBRARY_DIRS}
    NO_DEFAULT_PATH REQUIRED)
  find_library(PIPESCHED_LIBLLVM LLVM PATHS ${LLVM_LIBRARY_DIRS}
    NO_DEFAULT_PATH REQUIRED)
  mark_as_advanced(PIPESCHED_LIBMLIR PIPESCHED_LIBLLVM)
  pipesched_closure(libraries ${target})
  set(archives "")
  foreach(library ${libraries})
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      add_dependencies(${module} ${library})
      list(APPEND archives $<TARGET_FILE:${library}>)
    endif()
  endforeach()
  # The tools' -static-libstdc++ is then unused.
  target_link_options(${module} PRIVATE
    -nostdlib++ -Wno-unused-command-line-argument)
  target_link_libraries(${module} PRIVATE
    -Wl,--start-group ${archives} -Wl,--end-group
    ${PIPESCHED_LIBMLIR} ${PIPESCHED_LIBLLVM} stdc++)
endfunction()
