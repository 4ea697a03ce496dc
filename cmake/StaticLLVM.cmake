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
