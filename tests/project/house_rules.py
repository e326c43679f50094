# SPDX-License-Identifier: Apache-2.0
"""Checks the source tree: licence lines, file sizes, and that the compiler and the runtime know no kernel by name."""
import re
import subprocess
import sys
from pathlib import Path

SOURCE_SUFFIXES = {".cpp", ".h", ".cuh", ".td", ".cmake", ".py", ".mlir"}
MAX_LINES = 400
LONG_FILES = {"codegen/derive/Adjoints.td", "codegen/ir/KdaOps.td"}  # rule tables
KERNEL_WORDS = re.compile(r"kda_k1|\bq_d\b|\bk_d\b|\bk_i\b|\bk_r\b|A_log|dt_bias")
SHELLS = re.compile(r"\b(system|popen|wordexp|exec[lv]p?e?)\(")  # programs are run by runtime/process.h
MACHINE_PATHS = re.compile(r"/(home|root|work)/|https?://(?!(www\.)?(apache\.org|llvm\.org|mlir\.llvm\.org|arxiv\.org|github\.com))")


def tracked_files(root: Path) -> list[str]:
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.splitlines() if (root / name).is_file()]
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not {"build", ".cache"} & set(path.parts)]


def complaints(root: Path, name: str) -> list[str]:
    if name == "LICENSE":
        return []
    try:
        text = (root / name).read_text()
    except UnicodeDecodeError:
        return []
    lines = text.splitlines()
    found = []
    path = Path(name)
    is_source = path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt"
    if is_source and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        found.append(f"{name}:1: no SPDX line; start the file with SPDX-License-Identifier: Apache-2.0")
    if is_source and len(lines) > MAX_LINES and name not in LONG_FILES and path.parts[0] != "generated":
        found.append(f"{name}: {len(lines)} lines; split it, {MAX_LINES} are the limit")
    for number, line in enumerate(lines, 1):
        if name.startswith(("codegen/", "runtime/")) and KERNEL_WORDS.search(line):
            found.append(f"{name}:{number}: names a kernel or its tensors: {line.strip()}")
        if name != "tests/project/house_rules.py" and MACHINE_PATHS.search(line):
            found.append(f"{name}:{number}: path or address of one machine: {line.strip()}")
        if path.suffix in {".cpp", ".h"} and path.parts[0] != "tests" and SHELLS.search(line):
            found.append(f"{name}:{number}: runs a shell or a program by itself: {line.strip()}")
        if "\t" in line and is_source:
            found.append(f"{name}:{number}: tab")
        if is_source and line != line.rstrip():
            found.append(f"{name}:{number}: space at the end of the line")
    return found


def main() -> int:
    root = Path(sys.argv[1])
    names = tracked_files(root)
    found = [line for name in names for line in complaints(root, name)]
    print("\n".join(found))
    print(f"{len(names)} files, {len(found)} complaints")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
