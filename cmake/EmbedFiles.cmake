# SPDX-License-Identifier: Apache-2.0
# Run by kdagen_embed at build time.
string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(count 0)
foreach(file ${FILES})
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  file(RELATIVE_PATH name ${BASE} ${file})
  string(APPEND arrays "const unsigned char file_${count}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {reinterpret_cast<const char*>(file_${count}), ${size}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"runtime/embedded.h\"

namespace kdagen::runtime {
namespace {
${arrays}}  // namespace

std::span<const EmbeddedFile> ${FUNCTION}() {
  static const EmbeddedFile files[] = {
${rows}  };
  return files;
}

}  // namespace kdagen::runtime
")
