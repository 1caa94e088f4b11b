#!/usr/bin/env python3
"""PyTorch's times for what bench_gemm, bench_conv and bench_pointwise time: the reference of docs/benchmarks.md.

Inputs are random, f32 without TF32, cuDNN chooses its algorithms by measuring. The best of five batches of runs.
"""
import argparse
import time

import torch
import torch.nn.functional as F

CONVS = {  # C, K, kernel, size, stride, padding, as network_convs() in tests/cases/conv.cpp
    "64_64_3x3_56": (64, 64, 3, 56, 1, 1),
    "128_128_3x3_28": (128, 128, 3, 28, 1, 1),
    "256_256_3x3_14": (256, 256, 3, 14, 1, 1),
    "512_512_3x3_7": (512, 512, 3, 7, 1, 1),
    "3_64_7x7s2_224": (3, 64, 7, 224, 2, 3),
    "256_64_1x1_56": (256, 64, 1, 56, 1, 0),
    "64_256_1x1_56": (64, 256, 1, 56, 1, 0),
}


def seconds(run, device, runs):
    def finish():
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    run()
    run()
    best = float("inf")
    for _ in range(5):
        finish()
        start = time.perf_counter()
        for _ in range(runs):
            run()
        finish()
        best = min(best, (time.perf_counter() - start) / runs)
    return best


def time_gemm(options):
    for n in (1024, 2048, 4096):
        a, b = (torch.randn(n, n, device=options.device) for _ in range(2))
        took = seconds(lambda: a @ b, options.device, options.runs)
        print(f"gemm {n}^3: {2 * n**3 / took * 1e-9:.0f} GFLOP/s")


def time_conv(options):
    for name, (c, k, kernel, size, stride, pad) in CONVS.items():
        x = torch.randn(options.batch, c, size, size, device=options.device)
        w = torch.randn(k, c, kernel, kernel, device=options.device)
        dy = torch.randn_like(F.conv2d(x, w, stride=stride, padding=pad))

        def backward(data, weights):
            return torch.ops.aten.convolution_backward(
                dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [data, weights, False])

        runs = [lambda: F.conv2d(x, w, stride=stride, padding=pad), lambda: backward(True, False),
                lambda: backward(False, True)]
        times = [1e3 * seconds(run, options.device, options.runs) for run in runs]
        print(f"conv {name}, forward / backward data / backward filter: " + " / ".join(f"{t:.3f}" for t in times) + " ms")


def time_pointwise(options):
    x = torch.randn(4 * options.batch, 64, 56, 56, device=options.device)
    y = torch.empty_like(x)
    bias = torch.randn(1, 64, 1, 1, device=options.device)
    rows = torch.randn(4096 * options.batch, 1024, device=options.device)
    cases = {  # the run, and the f32 numbers that it reads and writes
        "copy": (lambda: y.copy_(x), 2 * x.numel()),
        "add_channel_bias": (lambda: torch.add(x, bias, out=y), 2 * x.numel()),
        "sum_channels": (lambda: x.sum((0, 2, 3)), x.numel()),
        "sum_rows": (lambda: rows.sum(1), rows.numel()),
        "sum_columns": (lambda: rows.sum(0), rows.numel()),
    }
    for name, (run, numbers) in cases.items():
        print(f"pointwise {name}: {4 * numbers / seconds(run, options.device, options.runs) * 1e-9:.0f} GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--device", default="cuda", help="as PyTorch names it")
    parser.add_argument("--batch", type=int, default=64, help="images of a convolution; pointwise work has four times as many")
    parser.add_argument("--runs", type=int, default=20, help="runs between two waits")
    parser.add_argument("what", nargs="*", default=["gemm", "conv", "pointwise"])
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print("PyTorch", torch.__version__, "on", options.device)
    for what in options.what:
        {"gemm": time_gemm, "conv": time_conv, "pointwise": time_pointwise}[what](options)


if __name__ == "__main__":
    main()
