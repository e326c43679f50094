// SPDX-License-Identifier: Apache-2.0
#include <my_kernels.h>
#include <my_spec_bwd.h>
#include <rmsnorm_fwd.h>

#include <cstdio>
#include <cstring>

int main() {
  const char* expected[] = {"rmsnorm_fwd", "rmsnorm_bwd", "my_spec_fwd", "my_spec_bwd"};
  if (my_kernels().size() != 4) return 1;
  for (int i = 0; i < 4; ++i) {
    const kdagen::CompiledKernel& kernel = my_kernels()[i];
    if (std::strcmp(kernel.name, expected[i]) != 0 || kernel.cubin.size() < 1000 ||
        !std::strstr(kernel.text, kernel.name))
      return 2;
    kdagen::load(kernel);
  }
  static_assert(kdagen::launcher::RmsnormFwd::chunk == 16);
  // A launch without tensors is refused before any device is looked for.
  try {
    kdagen::launcher::RmsnormFwd().launch(kdagen::load(my_kernels()[0]), {1, 16, 1, 1, nullptr, KDAGEN_FIXED_LENGTH});
  } catch (const kdagen::launcher::Failure& failure) {
    std::printf("%s\n", failure.what());
    return failure.code == KDAGEN_USAGE ? 0 : 3;
  }
  return 4;
}
