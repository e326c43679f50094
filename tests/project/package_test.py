# SPDX-License-Identifier: Apache-2.0
"""Installs kdagen into a temporary folder and builds a project that uses it with find_package and kdagen_add_kernels.

package_test.py BUILD_FOLDER CMAKE CXX. Exit code 77 (skipped) where there is no nvcc.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def run(*command: object) -> str:
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print("$", *command, "\n" + result.stdout, flush=True)
    if result.returncode != 0:
        sys.exit(f"exit code {result.returncode}")
    return result.stdout


def main() -> int:
    build, cmake, compiler = sys.argv[1:4]
    if not (os.environ.get("KDAGEN_NVCC") or shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()):
        print("no nvcc: skipped")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(cmake, "--install", build, "--prefix", folder / "prefix")
        shutil.copytree(Path(__file__).parent / "package", folder / "source")
        run(cmake, "-G", "Ninja", "-S", folder / "source", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}",
            f"-DCMAKE_CXX_COMPILER={compiler}")
        run(cmake, "--build", folder / "build", "--parallel", 2)
        run(folder / "build" / "package_user")
        before = (folder / "build" / "my_kernels" / "sm_90" / "my_spec_fwd.cu").read_text()
        header = folder / "source" / "eps.h"
        header.write_text(header.read_text().replace("1e-5", "1e-3"))
        again = run(cmake, "--build", folder / "build", "--parallel", 2)
        after = (folder / "build" / "my_kernels" / "sm_90" / "my_spec_fwd.cu").read_text()
        if before == after or "rmsnorm" in again:
            sys.exit("a changed header must emit its own spec again, and no other")
    return 0


if __name__ == "__main__":
    sys.exit(main())
