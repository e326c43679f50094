# SPDX-License-Identifier: Apache-2.0
"""The shared library loads into another language's process, shows its own functions only, and reports errors in words."""
import ctypes
import subprocess
import sys

path = sys.argv[1]
library = ctypes.CDLL(path)
library.kdagen_last_error.restype = ctypes.c_char_p
library.kdagen_runtime_version.restype = ctypes.c_char_p
assert library.kdagen_runtime_version().count(b".") == 2

kernel = ctypes.c_void_p(1)
manifest = b'{"schema": 1}'
result = library.kdagen_load(b"", ctypes.c_int64(0), manifest, ctypes.c_int64(len(manifest)), 0, ctypes.byref(kernel))
assert result == 2, result
assert b'"kernel" is missing' in library.kdagen_last_error(), library.kdagen_last_error()
assert kernel.value is None

symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
functions = [line.split()[-1] for line in symbols.splitlines() if line.split()[-2] == "T"]
assert functions and all(name.startswith("kdagen_") for name in functions), functions
