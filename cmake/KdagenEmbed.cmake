# SPDX-License-Identifier: Apache-2.0
# kdagen_embed(TARGET FUNCTION BASE FILES...)
# Adds to TARGET a source that defines `std::span<const kdagen::runtime::EmbeddedFile> kdagen::runtime::FUNCTION()`: the
# files' bytes, named by their paths relative to BASE. It is made again when a file changes.
set(KDAGEN_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EmbedFiles.cmake)
function(kdagen_embed target function base)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${function} -DBASE=${base} "-DFILES=${files}" -P ${KDAGEN_EMBED_SCRIPT}
    DEPENDS ${ARGN} ${KDAGEN_EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
