#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `kdagen ranges` proves of kda_k1, confirmed by `kdagen check`: all gates at their bound, over chunks and bounds.

Usage: exponents.py KDAGEN. With the headroom rule for gradients of that size, a cell is safe or refused. A safe
one must show an error of dk of at most 1e-5 against the true gradient, a refused one (by --force) more, or no number.
Cells whose largest safe chunk is within a row of the chunk are reported, not judged. Prints a table: s or r for safe or
refused, and the error. Texts keep subnormal numbers, so the rule is the one without ftz.
"""
import argparse
import itertools
import json
import math
import subprocess
import sys

LIMIT = 1e-5
SUBCHUNK = 16
SETTINGS = "operands=exact out=f32 grads=f32".split()


def run(kdagen, *words):
    return subprocess.run([kdagen, *words], capture_output=True, text=True)


def settings(items):
    return [word for item in items for word in ("--set", item)]


def is_safe(kdagen, chunk, bound, anchor, scale):
    items = [*SETTINGS, f"chunk={chunk}", f"lower_bound={bound}", f"anchor={anchor}"]
    result = run(kdagen, "ranges", "kda_k1", "--json", "--do-scale", str(scale), *settings(items))
    if result.returncode not in (0, 1):
        raise SystemExit(result.stderr)
    report = json.loads(result.stdout)
    if report["ok"] != (result.returncode == 0):
        raise SystemExit(f"ranges exits with {result.returncode} and reports ok={report['ok']}")
    return report["ok"]


def error_of_dk(kdagen, chunk, bound, anchor, scale):
    """Whether `check` passes dk, and its error against the true gradient; NaN where there is no number."""
    items = [*SETTINGS, f"chunk={chunk}", f"lower_bound={bound}", f"anchor={anchor}"]
    result = run(kdagen, "check", "kda_k1", "--pass", "bwd", "--regime", "bound", "--force", "--json", "--do-scale", str(scale),
                 "--seqlens", str(3 * chunk), "--heads", "1", *settings(items))
    if result.returncode not in (0, 1):
        raise SystemExit(result.stderr)
    found = [output for part in json.loads(result.stdout)["runs"] if part["oracle"] == "end_to_end"
             for output in part["outputs"] if output["name"] == "dk"]
    if len(found) != 1:
        raise SystemExit(f"check compares dk {len(found)} times with the true gradient")
    error = found[0]["rel_l2"]
    return found[0]["ok"], math.nan if error is None else error


def cells_of_table():
    bounds = (-5, -4, -3, -2, -1)
    yield from itertools.product(("none", "static"), (16, 32, 64), bounds)
    yield from itertools.product(("subchunk",), (32, 64), (-12, -10, *bounds))  # a chunk of 16 is one sub-chunk


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen")
    options = parser.parse_args()
    scales = (1.0, 1e-3, 1e-6, 1e-9)
    wrong = judged = 0
    for anchor, chunk, bound in cells_of_table():
        rows = SUBCHUNK if anchor == "subchunk" else chunk  # summed between anchors
        cells = []
        for scale in scales:
            safe = is_safe(options.kdagen, chunk, bound, anchor, scale)
            # A row less or more, as the sum of the same rows at another bound: chunks come in eights.
            less, more = (is_safe(options.kdagen, chunk, bound * (rows + row) / rows, anchor, scale) for row in (-1, 1))
            near = less != more
            ok, error = error_of_dk(options.kdagen, chunk, bound, anchor, scale)
            good = not near and (error <= LIMIT and ok if safe else not (error <= LIMIT) and not ok)
            judged += not near
            wrong += not near and not good
            cells.append(f"{'s' if safe else 'r'} {error:.1e}{' near' if near else '' if good else ' WRONG'}")
        print(f"| {anchor} | {chunk} | {bound} | " + " | ".join(cells) + " |", flush=True)
    print(f"{judged} cells judged, {wrong} wrong")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    sys.exit(main())
