#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Anchors by sub-chunk in both passes: chunks, dims, layouts, operands, both kinds of sums, ragged and fixed length.

Usage: subchunk.py KDAGEN TESTS_SPECS [--slice I/N]. kda_k1 at lower_bound -5, where no other anchor serves its chunks, and
exponents of test specs: of either sign, exclusive sums, gates by feature and by head.
"""
import itertools
import os
import sys

from check_commands import main

PACKED = ["--seqlens", "1,37,0,64,130", "--heads", "2"]
FIXED = ["--tokens", "70", "--batch", "2", "--heads", "1"]
LAYOUTS = [[], ["layout=htd"], ["upstream_layout=tile"]]


def commands(kdagen, specs):
    def command(spec, on, settings, shape=PACKED, *more):
        words = [word for item in settings for word in ("--set", item)]
        return [kdagen, "check", spec, "--on", on, *shape, *more, *words]

    preamble = ["anchor=subchunk", "lower_bound=-5"]
    for number, (chunk, dim, layout) in enumerate(itertools.product((32, 64), (64, 96, 128), LAYOUTS)):
        settings = [*preamble, f"chunk={chunk}", f"dim={dim}", *layout]
        yield command("kda_k1", "emulator", settings, FIXED if number % 4 == 3 else PACKED, "--regime", ("mixed", "strong", "typical")[number % 3])
    others = [["chunk=24"], ["chunk=40", "dim=96"], ["chunk=48", "scan=float"], ["chunk=64", "scan=float", "layout=htd"], ["chunk=64", "out=f32", "grads=f32"],
              ["chunk=64", "gt=pure", "operands=exact"], ["chunk=64", "save=q_inv", "grads=f32"], ["chunk=64", "scan=float", "save=g_c"], ["chunk=128", "dim=64"],
              ["chunk=64", "schedule=threads=128,tiles_per_block=2"], ["chunk=64", "schedule=baseline"], ["chunk=32", "upstream=bf16", "diag=1"]]
    for settings in others:
        yield command("kda_k1", "emulator", [*preamble, *settings], PACKED, "--regime", "mixed")
    for pipeline in ("exact", "bf16"):  # every regime against the gradient of the whole pipeline
        operands = ["operands=exact", "out=f32"] if pipeline == "exact" else ["out=bf16"]
        for scale in ("1", "1e-9"):
            yield command("kda_k1", "cpu", [*preamble, "chunk=64", "grads=f32", "upstream=f32", *operands], ["--tokens", "192", "--heads", "2"],
                          "--pipeline", pipeline, "--do-scale", scale)
    decays = os.path.join(specs, "decays.cpp")
    for form, gate, scan in itertools.product(("decay", "inverse", "inverse_exclusive"), ("bounded", "declared"), ("auto", "float")):
        yield command(decays, "emulator", [f"form={form}", f"gate={gate}", f"scan={scan}", "anchor=subchunk", "chunk=64", "dim=64"])
    by_head = os.path.join(specs, "head_decay.cpp")
    for chunk, dim, layout in ((32, 64, "bthd"), (64, 128, "htd"), (40, 96, "bthd")):
        yield command(by_head, "emulator", [f"chunk={chunk}", f"dim={dim}", f"layout={layout}"])


if __name__ == "__main__":
    sys.exit(main(commands))
