#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/traps.md: every number once and in order, with tests that exist and carry it, or a reason why it does not apply.

A test carries a number in its name, or in a comment `// T012` right above it."""
import re
import sys
from pathlib import Path

COUNT = 112
ROW = re.compile(r"^\| (T\d{3}) \| (.+?) \| (.+) \|$", re.M)
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.M)
NUMBER = re.compile(r"T\d{3}(?!\d)")


def carried(root: Path) -> dict[str, set[str]]:
    """Suite.Name -> the numbers it carries."""
    found = {}
    for path in sorted((root / "tests").rglob("*.cpp")):
        text = path.read_text()
        for match in TEST.finditer(text):
            above = text[: match.start()].rstrip("\n").rsplit("\n", 1)[-1]
            comment = above if above.startswith("//") and text[match.start() - 2] != "\n" else ""
            found[f"{match[1]}.{match[2]}"] = set(NUMBER.findall(match[2] + " " + comment))
    return found


def main() -> int:
    root = Path(sys.argv[1])
    rows = ROW.findall((root / "docs/traps.md").read_text())
    tests = carried(root)
    complaints = []
    if [number for number, _, _ in rows] != [f"T{i:03}" for i in range(1, COUNT + 1)]:
        complaints.append(f"docs/traps.md has not the rows T001 to T{COUNT}, each once and in order")
    listed = set()
    for number, _, where in rows:
        names = re.findall(r"`(\w+\.\w+)`", where)
        if not names and not where.startswith("does not apply: "):
            complaints.append(f"{number}: name a test, or say why it does not apply")
        for name in names:
            listed.add((name, number))
            if number not in tests.get(name, set()):
                complaints.append(f"{number}: there is no test {name} that carries the number")
    for name, numbers in tests.items():
        complaints += [f"{name} carries {number}, and its row does not name it" for number in numbers if (name, number) not in listed]
    print("\n".join(complaints))
    print(f"{len(rows)} traps, {len(listed)} entries, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
