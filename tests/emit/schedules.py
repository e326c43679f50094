#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the scheduler makes of made-up specs: where values join, which sweep computes what, which buffers share a place.

Usage: schedules.py KDAGEN FOLDER_OF_SPECS
"""
import re
import subprocess
import sys
import tempfile

KDAGEN, SPECS = sys.argv[1:]
HELD = f"{SPECS}/held.cpp"

# y needs nothing of the second sweep, and x is there in the first: done early, x is loaded once.
EARLY = """#include <kdagen/kdagen.h>
using namespace kdagen;
static Spec once(const Options& o) {
  Spec s("once", "an output that need not wait", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), u = s.input("u", {t, h, d});
  s.output("y", relu(x));
  s.output("z", u * total(x, t));
  return s;
}
KDAGEN_SPEC(once, once)
"""


def scheduled(spec, *options):
    command = [KDAGEN, "show", spec, "--stage", "scheduled", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def fail(what, text):
    sys.exit(f"{what}\n{text}")


def joined_in_front(text):
    return text.index(" both = ") < text.index("barrier")


def sweeps(text):
    """The tensors that each sweep loads."""
    loops = re.findall(r"^steps.*\n((?:  .*\n)*)", text, re.M)
    return [set(re.findall(r"load \S+ (\w+) = kda\.input", loop)) for loop in loops]


def places(text):
    """(first float, end) of each buffer that holds a tile, by what it holds."""
    found = re.findall(r"^buffer \d+ \(shared of (\S+)(?: (\w+))?\): (\d+) floats at (\d+)$", text, re.M)
    return {name or value: (int(at), int(at) + int(size)) for value, name, size, at in found if int(size) >= 2048}


def main():
    text = scheduled(HELD, "--pass", "fwd")
    if not joined_in_front(text):
        fail("held: rise*fall waits for the sum as two arrays", text)
    text = scheduled(HELD, "--pass", "fwd", "--set", "apart=1")
    if joined_in_front(text):
        fail("held, apart=1: rise*fall is made in front of the barrier although rise waits anyway", text)

    text = scheduled(HELD, "--pass", "bwd", "--set", "chunk=64")
    if sweeps(text)[:2] != [{"x"}, {"x", "u", "v", "dy", "dz"}]:
        fail(f"held bwd, chunk 64: the first sweep should load x alone, it is {sweeps(text)}", text)
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(EARLY)
        file.flush()
        text = scheduled(file.name, "--pass", "fwd", "--set", "chunk=64")
    if sweeps(text)[:2] != [{"x"}, {"u"}]:
        fail(f"once, chunk 64: x is loaded in one sweep, u in the other; they are {sweeps(text)}", text)

    # The level is read in rows, and the gradient with respect to it is then written in rows: each thread its own elements.
    text = scheduled(HELD, "--pass", "bwd")
    tiles = places(text)
    if len(tiles) != 3 or tiles["level"] != min(tiles.values()):
        fail(f"held bwd: three tiles change sides, found {tiles}", text)
    same = [name for name, place in tiles.items() if name != "level" and place == tiles["level"]]
    apart = [name for name, (first, end) in tiles.items() if first >= tiles["level"][1]]
    if same == [] or apart != ["dwide"]:
        fail(f"held bwd: one tile takes the level's place, dwide is alive beside it; found {tiles}", text)
    if text.count("barrier") != 4:
        fail("held bwd: sharing a place takes no further barrier, four are needed", text)


main()
