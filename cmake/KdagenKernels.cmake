# SPDX-License-Identifier: Apache-2.0
# kdagen_add_kernels(NAME SPECS spec... [ARCHS arch...] [PASS fwd|bwd|both] [OPTIONS key=value...])
#
# Emits every spec (a shipped name, or a .cpp of yours) for every arch (default sm_90), compiles the texts with nvcc, and makes
# the static library NAME with the header <NAME.h>:
#
#   std::span<const kdagen::CompiledKernel> NAME();      kernel name, arch, CUDA C++ text, manifest (JSON), cubin
#   kdagen::launcher::Kernel kdagen::load(kernel);       ready to launch without a compiler; then use <kernel.h>'s typed struct
#
# NAME links kdagen::runtime. Texts, manifests, launcher headers and cubins lie in NAME/<arch>/ of the binary folder. They are made again when a spec, a header it includes,
# or kdagen itself changes. nvcc is the cache variable KDAGEN_NVCC, else the environment's KDAGEN_NVCC, else the one on PATH.
set(KDAGEN_EMBED_KERNELS ${CMAKE_CURRENT_LIST_DIR}/EmbedKernels.cmake)

function(kdagen_add_kernels name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "PASS" "SPECS;ARCHS;OPTIONS")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SPECS)
    message(FATAL_ERROR "kdagen_add_kernels(${name} SPECS spec... [ARCHS arch...] [PASS fwd|bwd|both] [OPTIONS key=value...]): "
      "SPECS is missing, or these are not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_ARCHS)
    set(ARG_ARCHS sm_90)
  endif()
  if(NOT ARG_PASS)
    set(ARG_PASS both)
  endif()
  find_program(KDAGEN_NVCC NAMES $ENV{KDAGEN_NVCC} nvcc HINTS /usr/local/cuda/bin REQUIRED)
  string(REPLACE "both" "fwd;bwd" passes ${ARG_PASS})
  set(settings "")
  foreach(option ${ARG_OPTIONS})
    list(APPEND settings --set ${option})
  endforeach()
  set(include_options ${KDAGEN_INCLUDE_DIRS})
  list(TRANSFORM include_options PREPEND -I)
  set(rows "")
  set(inputs "")
  foreach(arch ${ARG_ARCHS})
    foreach(spec ${ARG_SPECS})
      kdagen_emit_and_compile(${name} ${spec} ${arch})
    endforeach()
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(OUTPUT ${folder}/${name}.cpp ${folder}/${name}.h
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DFOLDER=${folder} "-DROWS=${rows}" -P ${KDAGEN_EMBED_KERNELS}
    DEPENDS ${inputs} ${KDAGEN_EMBED_KERNELS} VERBATIM)
  add_library(${name} STATIC ${folder}/${name}.cpp ${folder}/${name}.h)
  list(GET ARG_ARCHS 0 first_arch)  # a launcher header says nothing of the arch but in a comment
  target_include_directories(${name} PUBLIC ${folder} ${folder}/${first_arch})
  target_link_libraries(${name} PUBLIC kdagen::runtime)
  target_compile_features(${name} PUBLIC cxx_std_20)
endfunction()

# One spec for one arch; adds to `rows` (kernel@arch) and `inputs` of the caller.
macro(kdagen_emit_and_compile name spec arch)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}/${arch})
  set(source ${spec})
  set(file "")
  set(depfile "")
  set(scan "")
  if("${spec}" MATCHES "\\.cpp$")
    get_filename_component(source ${spec} ABSOLUTE)
    get_filename_component(kernel ${spec} NAME_WE)
    set(file ${source})
    set(depfile DEPFILE ${folder}/${kernel}.d)
    set(scan COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 ${include_options} -MM -MT ${folder}/${kernel}.emitted
      -MF ${folder}/${kernel}.d ${source})
  else()
    set(kernel ${spec})
  endif()
  file(MAKE_DIRECTORY ${folder})
  set(texts "")
  foreach(pass ${passes})
    list(APPEND texts ${folder}/${kernel}_${pass}.cu ${folder}/${kernel}_${pass}.json ${folder}/${kernel}_${pass}.h)
  endforeach()
  add_custom_command(OUTPUT ${folder}/${kernel}.emitted BYPRODUCTS ${texts}
    COMMAND kdagen::kdagen emit ${source} --pass ${ARG_PASS} --arch ${arch} -o ${folder} --launcher ${settings}
    ${scan}
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}/${kernel}.emitted
    DEPENDS kdagen::kdagen ${file} ${depfile}
    COMMENT "kdagen emit ${spec} for ${arch}" VERBATIM)
  foreach(pass ${passes})
    set(stem ${folder}/${kernel}_${pass})
    add_custom_command(OUTPUT ${stem}.cubin
      COMMAND ${KDAGEN_NVCC} -cubin -arch=${arch} -std=c++17 -fmad=false ${include_options} ${stem}.cu -o ${stem}.cubin
      DEPENDS ${folder}/${kernel}.emitted COMMENT "nvcc ${kernel}_${pass}.cu for ${arch}" VERBATIM)
    list(APPEND inputs ${stem}.cubin)
    string(APPEND rows "${kernel}_${pass}@${arch}|")
  endforeach()
endmacro()
