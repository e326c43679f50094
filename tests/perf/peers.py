#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times generated kernels and what users would pick instead, in one run: FLA's Triton chain and torch.compile.

Needs a CUDA device, torch, and (for the first table) flash-linear-attention importable; B=1, D=128, token-major tensors.
Usage: tests/perf/peers.py [--kdagen build/bin/kdagen] [--tokens 8192] [--heads 96]
kdagen's kernels are checked by `kdagen bench` itself, in the process that times them; it exits with 1 where one fails.
Prints milliseconds (median of CUDA events) and the useful bandwidth against the fused floor in bytes per element.
"""
import argparse
import importlib.metadata
import json
import subprocess

import torch

LOWER_BOUND, LOG2E = -5.0, 1.4426950408889634


def median_ms(fn, runs=20, warm=3):
    for _ in range(warm):
        fn()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); fn(); b.record(); b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[len(times) // 2]


def report(name, ms, n, bytes_per_elt, copy_gbps):
    gbps = n * bytes_per_elt / ms / 1e6
    print(f"{name:42s} {ms:8.4f} ms  floor {bytes_per_elt} B/elt -> {gbps:5.0f} GB/s useful = {100 * gbps / copy_gbps:4.1f} % of copy")


def copy_ceiling():
    x = torch.empty(1 << 30, device="cuda"); y = torch.empty_like(x)
    return 2 * 4 * (1 << 30) / median_ms(lambda: y.copy_(x)) / 1e6


def inputs(T, H, D):
    bf = lambda *s: torch.randn(*s, device="cuda").bfloat16()
    return dict(q=bf(1, T, H, D), k=bf(1, T, H, D), v=bf(1, T, H, D), g=bf(1, T, H, D), beta=bf(1, T, H),
                A_log=torch.log(torch.rand(H, device="cuda") * 15 + 1), dt_bias=torch.randn(H, D, device="cuda"))


def fla(x, T, H, D, copy_gbps):
    from fla.modules.l2norm import l2norm_bwd, l2norm_fwd
    from fla.ops.common.gate import fused_beta_sigmoid, fused_beta_sigmoid_bwd
    from fla.ops.kda import chunk_kda
    from fla.ops.kda.gate import kda_gate_bwd, kda_gate_chunk_cumsum
    from fla.ops.utils import chunk_local_cumsum
    n, gate = T * H * D, dict(g=x["g"], A_log=x["A_log"], dt_bias=x["dt_bias"], lower_bound=LOWER_BOUND)
    q_n, q_r = l2norm_fwd(x["q"]); k_n, k_r = l2norm_fwd(x["k"])
    dq, dk, dg = (torch.randn(1, T, H, D, device="cuda") for _ in range(3)); db = torch.randn(1, T, H, device="cuda")

    def forward():
        l2norm_fwd(x["q"]); l2norm_fwd(x["k"]); fused_beta_sigmoid(x["beta"])
        kda_gate_chunk_cumsum(scale=LOG2E, chunk_size=64, **gate)

    def backward():
        kda_gate_bwd(dyg=chunk_local_cumsum(dg, chunk_size=64, reverse=True), **gate)
        l2norm_bwd(q_n, q_r, dq); l2norm_bwd(k_n, k_r, dk); fused_beta_sigmoid_bwd(x["beta"], db)

    report("FLA preamble forward chain", median_ms(forward), n, 14, copy_gbps)
    report("FLA preamble backward chain", median_ms(backward), n, 24, copy_gbps)
    leaf = {k: v.detach().clone().requires_grad_() for k, v in x.items()}
    run = lambda: chunk_kda(leaf["q"], leaf["k"], leaf["v"], leaf["g"], leaf["beta"], A_log=leaf["A_log"], dt_bias=leaf["dt_bias"].view(-1),
                            use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, safe_gate=True, lower_bound=LOWER_BOUND)[0]
    do = torch.randn_like(run())
    print(f"FLA chunk_kda forward {median_ms(run, 10):.3f} ms, forward+backward {median_ms(lambda: run().backward(do), 10):.3f} ms")


def compiled(x, T, H, D, copy_gbps, C=16):
    def k1(q, k, g, A_log, dt_bias):
        norm = lambda y: y.float() * torch.rsqrt((y.float() ** 2).sum(-1, keepdim=True) + 1e-6)
        gate = LOWER_BOUND * LOG2E * torch.sigmoid(A_log.exp()[None, None, :, None] * (g.float() + dt_bias))
        g_c = gate.view(1, T // C, C, H, D).cumsum(2); g_T = g_c[:, :, -1:]
        q_n, k_n = (norm(y).view(1, T // C, C, H, D) for y in (q, k))
        return q_n * torch.exp2(g_c) * D ** -0.5, k_n * torch.exp2(g_c), k_n * torch.exp2(-g_c), k_n * torch.exp2(g_T - g_c), g_T
    fn, n = torch.compile(k1), T * H * D
    leaf = [x[k].detach().clone().requires_grad_() for k in ("q", "k", "g", "A_log", "dt_bias")]
    outs = fn(*leaf); cot = [torch.randn_like(o) for o in outs]

    def backward():
        for y in leaf:
            y.grad = None
        torch.autograd.backward(outs, cot, retain_graph=True)

    report("torch.compile K1 backward, fp32 cotangents", median_ms(backward, 10), n, 28, copy_gbps)
    with torch.no_grad():
        report("torch.compile K1 forward, fp32 outputs", median_ms(lambda: fn(*leaf), 10), n, 22, copy_gbps)


def streams(n, copy_gbps):
    """What is left of a backward without its arithmetic: as many float32 and bf16 tensors read, as many bf16 ones written."""
    for name, wide in (("FLA preamble backward", 3), ("K1 backward", 4)):
        a = [torch.randn(n, device="cuda") for _ in range(wide)]; x = [torch.randn(n, device="cuda").bfloat16() for _ in range(3)]
        fn = torch.compile(lambda a, x: [((a[i] + a[-1]) * x[i].float()).bfloat16() for i in range(3)])
        report(f"no arithmetic: bytes of the {name}", median_ms(lambda: fn(a, x)), n, 4 * wide + 12, copy_gbps)


def versions():
    found = []
    for package in ("torch", "triton", "flash-linear-attention", "fla-core"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def generated(kdagen, T, H):
    """kdagen's kernels on the same shapes; dv shares its memory with the cotangent of v, as a consumer would have it."""
    fp32 = ["--set", "out=f32"]
    runs = [("K1 backward, operands=exact", ["kda_k1", "--pass", "bwd", "--set", "operands=exact", "--set", "upstream.v_out=bf16"]),
            ("K1 backward, operands=rounded", ["kda_k1", "--pass", "bwd", "--set", "operands=rounded", "--set", "upstream.v_out=bf16"]),
            ("K1 forward, bf16 outputs", ["kda_k1", "--pass", "fwd"]),
            ("K1 forward, fp32 outputs", ["kda_k1", "--pass", "fwd"] + fp32),
            ("FLA preamble forward (kda_fla)", ["kda_fla", "--pass", "fwd"]),
            ("FLA preamble backward (kda_fla)", ["kda_fla", "--pass", "bwd"])]
    print(subprocess.run([kdagen, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    for name, arguments in runs:
        command = [kdagen, "bench", *arguments, "--on", "cuda", "--tokens", str(T), "--heads", str(H), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{'kdagen ' + name:42s} failed: {done.stderr.strip()}")
            continue
        run = json.loads(done.stdout)["runs"][0]
        print(f"{'kdagen ' + name:42s} {run['ms']:8.4f} ms  {run['bytes'] / (T * H * 128):.1f} B/elt -> {run['gbps']:5.0f} GB/s = "
              f"{100 * run['fraction_of_copy']:4.1f} % of copy  text {run['text_hash']} {run['config']} verified={run['verified']}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(); p.add_argument("--tokens", type=int, default=8192); p.add_argument("--heads", type=int, default=96)
    p.add_argument("--kdagen", default="build/bin/kdagen")
    a = p.parse_args(); D = 128
    print(versions(), torch.cuda.get_device_name())
    generated(a.kdagen, a.tokens, a.heads)
    torch.manual_seed(0)
    gbps = copy_ceiling(); print(f"copy ceiling {gbps:.0f} GB/s")
    x = inputs(a.tokens, a.heads, D)
    for part, arguments in ((fla, (x, a.tokens, a.heads, D, gbps)), (compiled, (x, a.tokens, a.heads, D, gbps)), (streams, (a.tokens * a.heads * D, gbps))):
        try:
            part(*arguments)
        except Exception as e:  # a missing peer must not hide the other
            print(f"{part.__name__}: not measured ({type(e).__name__}: {e})")
