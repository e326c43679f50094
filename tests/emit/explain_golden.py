#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The derived backward of kda_k1 as formulas, beside the lines of its mathematics that they stand for.

Usage: explain_golden.py KDAGEN GOLDEN_FOLDER. The golden text holds the formulas without spec lines. Each entry of
MATHEMATICS must be found in it, so that a changed golden text cannot drift away from the mathematics unnoticed.
"""
import re
import subprocess
import sys

COMMON = {
    "dq_n = dq_d*e+*scale": r"^dq_n = dq_d\*2\^g_c\*scale$",
    "dk_n = P + N, P = dk_d*e+": r"^dk_n = dk_d\*2\^g_c \+ ",
    "dq = (dq_n - q_n <dq_n, q_n>) * q_inv": r"^dq = \(dq_n - q_n\*sum_d\((q_n\*dq_n|dq_n\*q_n)\)\)\*q_inv",
    "dk = (dk_n - k_n <dk_n, k_n>) * k_inv": r"^dk = \(dk_n - k_n\*sum_d\((k_n\*dk_n|dk_n\*k_n)\)\)\*k_inv",
    "dz = dg * sigmoid'(z) * lower_bound (gate_scale*ln2 cancels)": r"^dz = dg\*sigmoid'\(z\)\*lower_bound$",
    "dg_raw = dz*a": r"^dg_raw = dz\*exp\(A_log\)",
    "ddt_bias = sum dz*a": r"^ddt_bias = sum_\{b,n\}\(sum_t\(dg_raw\)\)",
    "dA_log = sum dz*(g_raw+dt_bias)*a": r"^dA_log = sum_d\(sum_\{b,n\}\(sum_t\(dz\*\(g_raw \+ dt_bias\)\)\)\)\*exp\(A_log\)",
    "dbeta_raw = dbeta*sigmoid'(beta_raw)": r"^dbeta_raw = dbeta\*sigmoid'\(beta_raw\)",
    "dv passes through": r"^dv = dv_out",
}
MATHEMATICS = {
    "k2": {
        "dg_c = q_n*dq_n + k_n*(P - N)": r"^dg_c = q_n\*dq_n \+ k_n\*\(dk_d\*2\^g_c - _dk_i_plus_dk_r\)$",
        "N = dk_i*e- + dk_r*eT": r"^_dk_i_plus_dk_r = dk_i\*2\^\(-g_c\) \+ dk_r\*\(2\^g_T\*2\^\(-g_c\)\)$",
        "dg = suffix sum of dg_c, + dg_T": r"^dg = suffix_sum_t\(dg_c\) \+ dg_T$",
    },
    "pure": {
        "dg = suffix(dg_c without k_r) + prefix(k_r*dk_r) + dg_T*log2e":
            r"^dg = suffix_sum_t\(q_n\*dq_n \+ k_n\*\(dk_d\*2\^g_c - dk_i\*2\^\(-g_c\)\)\)"
            r" \+ cumsum_t_exclusive\(k_n\*_dk_r_times_g_T\) \+ dg_T\*log2e$",
        "k_n*_dk_r_times_g_T = k_r*dk_r": r"^_dk_r_times_g_T = dk_r\*\(2\^g_T\*2\^\(-g_c\)\)$",
    },
}


def backward(kdagen, gt):
    command = [kdagen, "explain", "kda_k1", "--set", "operands=exact", "--set", f"gt={gt}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    part = text.split("\nbackward, derived\n", 1)[1].split("\noperands:", 1)[0]
    lines = [re.sub(r"\s*\[spec:\d+\]$", "", line) for line in part.splitlines()]
    return [line for line in lines if line]


def main():
    kdagen, folder = sys.argv[1:3]
    failures = 0
    for gt, own in MATHEMATICS.items():
        lines = backward(kdagen, gt)
        golden = open(f"{folder}/kda_k1_backward_{gt}.txt", encoding="utf-8").read().splitlines()
        if lines != golden:
            failures += 1
            print(f"gt={gt}: differs from the golden text:", *lines, sep="\n  ")
        for formula, pattern in {**COMMON, **own}.items():
            if not any(re.search(pattern, line) for line in lines):
                failures += 1
                print(f"gt={gt}: no line for {formula}")
        if any("ln2" in line for line in lines):
            failures += 1
            print(f"gt={gt}: an ln2 is left")
    print("2 forms,", failures, "failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
