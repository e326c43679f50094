// SPDX-License-Identifier: Apache-2.0
#include <new>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "kdagen/runtime.h"
#include "runtime/files.h"
#include "runtime/kernel.h"

struct kdagen_kernel {
  std::unique_ptr<kdagen::runtime::CudaKernel> implementation;
};

namespace {

using namespace kdagen;
using namespace kdagen::runtime;

thread_local std::string last_error;

// Exceptions end here: the caller may be C.
template <class Action>
int guarded(Action action) noexcept {
  const auto fail = [](int code, const char* message) {
    try {
      last_error = message;
    } catch (const std::bad_alloc&) {
      last_error.clear();
    }
    return code;
  };
  try {
    last_error.clear();
    action();
    return KDAGEN_OK;
  } catch (const Error& error) {
    return fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(KDAGEN_TOOLCHAIN, "out of host memory");
  } catch (const std::exception& error) {
    return fail(KDAGEN_INTERNAL, error.what());
  }
}

template <class T>
T& not_null(T* pointer, const char* name) {
  if (!pointer) throw UsageError(fmt::format("the argument {} is null", name));
  return *pointer;
}

// The enumerators of the two headers have the same order.
DType to_dtype(kdagen_dtype dtype, std::string_view tensor) {
  static_assert(static_cast<int>(DType::f64) == KDAGEN_F64 && static_cast<int>(DType::i8) == KDAGEN_I8);
  if (dtype < KDAGEN_F64 || dtype > KDAGEN_I8)
    throw UsageError(fmt::format("tensor \"{}\" has the dtype {}, which is none", tensor, static_cast<int>(dtype)));
  return static_cast<DType>(dtype);
}

TensorRef to_tensor(const kdagen_tensor& tensor) {
  const std::string name = &not_null(tensor.name, "name of a tensor");
  if (tensor.rank < 0 || tensor.rank > static_cast<int>(Dims::max_rank))
    throw UsageError(
        fmt::format("tensor \"{}\" has {} dimensions; 0 to {} are possible", name, tensor.rank, Dims::max_rank));
  if (tensor.rank > 0 && (!tensor.shape || !tensor.strides))
    throw UsageError(fmt::format("tensor \"{}\" has no shape or no strides", name));
  const auto rank = static_cast<std::size_t>(tensor.rank);
  return {name,         tensor.data, to_dtype(tensor.dtype, name), Dims(tensor.shape, rank), Dims(tensor.strides, rank),
          tensor.device};
}

Problem to_problem(const kdagen_problem& problem) {
  static_assert(static_cast<int>(OffsetType::i32) == KDAGEN_OFFSETS_I32 &&
                static_cast<int>(OffsetType::i64) == KDAGEN_OFFSETS_I64);
  if (problem.offsets < KDAGEN_FIXED_LENGTH || problem.offsets > KDAGEN_OFFSETS_I64)
    throw UsageError(fmt::format("offsets is {}; expected one of kdagen_offsets", static_cast<int>(problem.offsets)));
  return {problem.batch,     problem.tokens,     problem.heads,
          problem.sequences, problem.cu_seqlens, static_cast<OffsetType>(problem.offsets)};
}

std::optional<CompilerChoice> to_compiler(kdagen_compiler compiler) {
  switch (compiler) {
    case KDAGEN_COMPILER_AUTO:
      return std::nullopt;
    case KDAGEN_COMPILER_NVRTC:
      return CompilerChoice::nvrtc;
    case KDAGEN_COMPILER_NVCC:
      return CompilerChoice::nvcc;
  }
  throw UsageError(fmt::format("compiler is {}; expected one of kdagen_compiler", static_cast<int>(compiler)));
}

void load(std::string text, std::string_view manifest, std::string_view source, kdagen_compiler compiler,
          kdagen_kernel*& kernel) {
  KernelOptions options;
  options.compiler = to_compiler(compiler);
  auto loaded = std::make_unique<kdagen_kernel>();
  loaded->implementation = make_cuda_kernel(std::move(text), load_manifest(manifest, source), std::move(options));
  kernel = loaded.release();
}

std::string whole_file(const char* path, const char* name) {
  std::string error;
  auto bytes = read_file(&not_null(path, name), error);
  if (!bytes) throw UsageError(fmt::format("{}: cannot be read: {}", path, error));
  return std::move(*bytes);
}

}  // namespace

const char* kdagen_last_error(void) { return last_error.c_str(); }

const char* kdagen_runtime_version(void) { return KDAGEN_VERSION; }

int kdagen_load(const char* text, int64_t text_bytes, const char* manifest, int64_t manifest_bytes,
                kdagen_compiler compiler, kdagen_kernel** kernel) {
  return guarded([&] {
    not_null(kernel, "kernel") = nullptr;
    if (text_bytes < 0 || manifest_bytes < 0) throw UsageError("a length is negative");
    load(std::string(&not_null(text, "text"), static_cast<std::size_t>(text_bytes)),
         {&not_null(manifest, "manifest"), static_cast<std::size_t>(manifest_bytes)}, "manifest", compiler, *kernel);
  });
}

int kdagen_load_files(const char* text_path, const char* manifest_path, kdagen_compiler compiler,
                      kdagen_kernel** kernel) {
  return guarded([&] {
    not_null(kernel, "kernel") = nullptr;
    load(whole_file(text_path, "text_path"), whole_file(manifest_path, "manifest_path"), manifest_path, compiler,
         *kernel);
  });
}

void kdagen_unload(kdagen_kernel* kernel) { delete kernel; }

int kdagen_warm_up(kdagen_kernel* kernel, int32_t device) {
  return guarded([&] { not_null(kernel, "kernel").implementation->warm_up(device); });
}

int kdagen_add_binary(kdagen_kernel* kernel, const char* arch, const void* image, int64_t image_bytes) {
  return guarded([&] {
    if (image_bytes <= 0) throw UsageError("the image is empty");
    const char* bytes = static_cast<const char*>(image);
    not_null(kernel, "kernel")
        .implementation->add_binary(
            {&not_null(arch, "arch"), {&not_null(bytes, "image"), static_cast<std::size_t>(image_bytes)}});
  });
}

int kdagen_workspace_bytes(const kdagen_kernel* kernel, const kdagen_problem* problem, int64_t* bytes) {
  return guarded([&] {
    not_null(bytes, "bytes") =
        not_null(kernel, "kernel").implementation->workspace_bytes(to_problem(not_null(problem, "problem")));
  });
}

int kdagen_launch(kdagen_kernel* kernel, const kdagen_tensor* tensors, int32_t tensor_count,
                  const kdagen_problem* problem, void* stream, void* workspace, int64_t workspace_bytes) {
  return guarded([&] {
    CudaKernel& implementation = *not_null(kernel, "kernel").implementation;
    if (tensor_count < 0) throw UsageError("tensor_count is negative");
    std::vector<TensorRef> list;
    for (int32_t i = 0; i < tensor_count; ++i) {
      const TensorRef tensor = to_tensor((&not_null(tensors, "tensors"))[i]);
      const TensorInfo* info = implementation.manifest().find_tensor(tensor.name);
      if (!tensor.data && info && info->optional) continue;
      list.push_back(tensor);
    }
    LaunchOptions options;
    options.stream = stream;
    options.workspace = {workspace, workspace_bytes};
    implementation.launch(list, to_problem(not_null(problem, "problem")), options);
  });
}
