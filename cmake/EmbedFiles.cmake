# pipesched_embed_files(output.inc folder): writes a C++ initializer list of {name, contents} pairs,
# one per JSON file of the folder, sorted by name, which is the file's without extension. A changed
# file regenerates the list; a new or removed file reconfigures.
#
# In script mode (cmake -P) this file is the generator itself.

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(text "// Generated from ${FOLDER}; do not edit.\n")
  file(GLOB files ${FOLDER}/*.json)
  list(SORT files)
  foreach(file ${files})
    file(READ ${file} contents)
    cmake_path(GET file STEM LAST_ONLY name)
    string(APPEND text "{\"${name}\", R\"embedded(${contents})embedded\"},\n")
  endforeach()
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

set(PIPESCHED_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(pipesched_embed_files output folder)
  file(GLOB files ${folder}/*.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder})
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output}
      -P ${PIPESCHED_EMBED_SCRIPT}
    DEPENDS ${files} ${PIPESCHED_EMBED_SCRIPT}
    COMMENT "Embedding ${folder}" VERBATIM)
endfunction()
