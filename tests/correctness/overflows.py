#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eleven ways in which kernels for linear attention have overflowed: refused with advice that passes, or right.

Usage: overflows.py KDAGEN SPECS_FOLDER. Of a refusal, every piece of advice is followed, and what comes of it must pass
`kdagen check`; advice that this script cannot follow is a failure. What is not refused must pass `check` as it is.
"""
import pathlib
import re
import subprocess
import sys

K1 = "kda_k1"
DECAYS = "decays.cpp"
NATS_OF_126_BITS = 126 / 1.4426950408889634

# What happened, spec, refused settings, settings that are right as they are.
SITUATIONS = [
    ("the decay up to a row, less that of a later one, in a backward", DECAYS,
     ["gate=softplus form=to_end_exclusive"], ["gate=softplus form=to_end strength=100"]),
    ("2^(total - cumsum) of gates that may be positive", DECAYS,
     ["gate=any form=to_end"], ["gate=softplus form=to_end"]),
    ("sixteen rows of a gate bounded by hand", K1,
     ["lower_bound=-5.55", "lower_bound=-6 gt=pure"], ["lower_bound=-5", f"lower_bound={-NATS_OF_126_BITS / 16 + 1e-3:.3f}"]),
    ("a checkpoint's gates span 6e4, those of the unit test little", DECAYS,
     ["gate=softplus form=inverse strength=4000 chunk=64"],
     ["gate=softplus form=to_end strength=4000 chunk=64", "gate=softplus form=decay strength=4000 chunk=64",
      "gate=softplus form=apart strength=4000 chunk=64"]),
    ("2^cumsum of a gate with a positive mean, stored as bf16", DECAYS,
     ["gate=any form=decay out=bf16", "gate=any form=decay out=bf16 chunk=64"], ["gate=softplus form=decay out=bf16"]),
    ("a decay of 1e-12 given as a factor", DECAYS,
     ["gate=decay form=inverse strength=12", "gate=decay form=inverse strength=12 least=0.1 chunk=32"],
     ["gate=decay form=to_end strength=12 least=0.1 chunk=32", "gate=decay form=decay strength=12 least=0.1 chunk=32"]),
    ("fifteen steps between the rows of a chunk", DECAYS,
     ["form=inverse_exclusive bound=-5.92"], ["form=inverse_exclusive bound=-5.91 strength=50"]),
    ("differences of which a mask takes the decaying ones: 0*inf in the gradient", DECAYS,
     ["gate=softplus form=masked_difference"], ["gate=softplus form=masked_capped strength=100"]),
    ("finite inputs, an anchor for a whole chunk of 64, NaN in the derived outputs", K1,
     ["chunk=64 anchor=static", "chunk=64 anchor=static gt=pure save=e_T"], ["chunk=64 anchor=static lower_bound=-1"]),
    ("an anchor in the middle of 64 rows: NaN at a bound of -5, silently wrong at -3", K1,
     ["chunk=64 anchor=static lower_bound=-3"], ["chunk=64 anchor=static lower_bound=-2.5 operands=exact out=f32 grads=f32"]),
    ("no bound by default", DECAYS,
     ["gate=softplus form=inverse"], ["gate=bounded form=inverse strength=50"]),
]


def run(command):
    return subprocess.run(command, capture_output=True, text=True)


def settings(given):
    return [word for name, value in given.items() for word in ("--set", f"{name}={value}")]


def parsed(text):
    return dict(item.split("=") for item in text.split())


def check(kdagen, spec, given):
    result = run([kdagen, "check", spec, "--seqlens", "16,33,0,71", "--heads", "2", *settings(given)])
    bad = [line for line in result.stdout.splitlines() if "FAIL" in line]
    return [] if result.returncode == 0 else [f"check exits with {result.returncode}", *bad[-4:], result.stderr.strip()]


def followed(advice, spec, given):
    """The settings that do what a piece of advice says; None where it is not understood."""
    bound = "lower_bound" if spec == K1 else "bound"
    apart = {"handover": "fused"} if spec == K1 else {"form": "apart"}
    few = f"{-1.3 * 64 / int(given.get('chunk', 16)):.3f}"  # nats a token
    if chunk := re.fullmatch(r"chunk=(\d+) \(limit (\d+)\)", advice):
        return [{**given, "chunk": chunk[1]}] if int(chunk[1]) <= int(chunk[2]) else None
    if limit := re.fullmatch(rf"{bound} >= (-[\d.]+)", advice):
        return [{**given, bound: limit[1]}]
    if limit := re.fullmatch(r"strength <= ([\d.]+)", advice):
        return [{**given, "strength": limit[1]}]
    if advice == "a static anchor on the output (stored as value*2^n)":
        return [{**given, "anchor": "static"}]
    if advice == "anchors by sub-chunk on the output (stored as value*2^n, n for every 16 rows)":
        return [{**given, "anchor": "subchunk"}]
    if bounds := re.fullmatch(r"bounds\((-?[\d.e-]+), (-?[\d.e-]+)\) on gate", advice):
        return [{**given, ("least" if given.get("gate") == "decay" else "bound"): bounds[1]}]
    if advice == "bounds(lower, upper) on gate":
        return [{**given, "gate": "declared", "bound": few}]
    if advice == "a bounded gate (a constant times sigmoid)":
        return [{**given, "gate": "bounded", "bound": few}]
    form = "an output form without a growing factor: the exponent itself, the factors apart"
    if not advice.startswith(form):
        return None
    base = {name: value for name, value in given.items() if name not in ("anchor", "gt")}
    ways = [{**base, **apart}]
    if spec == K1:
        ways += [{**base, "handover": "premult"}, {**base, "handover": "premult4"}]
    elif advice != form:
        ways += [{**base, "form": "to_end"}]
    return ways


def judge_refusal(kdagen, path, spec, given):
    result = run([kdagen, "emit", path, *settings(given)])
    problems = [] if result.returncode == 2 and not result.stdout else [f"emit exits with {result.returncode}"]
    if not re.search(r"\.cpp:\d+: error: .*(may overflow|lacks headroom)", result.stderr):
        problems.append("no line and reason: " + result.stderr.strip())
    listed = re.search(r"any one of these passes: (.*)", result.stderr)
    if not listed:
        return problems + ["no advice"], 0
    count = 0
    for advice in listed[1].split("  |  "):
        ways = followed(advice, spec, given)
        if ways is None:
            problems.append(f"advice that is not understood: {advice}")
        for way in ways or []:
            count += 1
            problems += [f"'{advice}' as {way}: {problem}" for problem in check(kdagen, path, way)]
    return problems, count


def main():
    kdagen, folder = sys.argv[1:]
    failed = 0
    for what, spec, refused, right in SITUATIONS:
        path = spec if spec == K1 else str(pathlib.Path(folder) / spec)
        problems, advice = [], 0
        for text in refused:
            found, count = judge_refusal(kdagen, path, spec, parsed(text))
            problems += [f"{text}: {problem}" for problem in found]
            advice += count
        for text in right:
            problems += [f"{text}: {problem}" for problem in check(kdagen, path, parsed(text))]
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {what}: {len(refused)} refused, {advice} ways out, {len(right)} right", *problems,
              sep="\n    ", flush=True)
    print(f"{len(SITUATIONS)} situations, {failed} failed")
    return 1 if failed or len(SITUATIONS) != 11 else 0


if __name__ == "__main__":
    sys.exit(main())
