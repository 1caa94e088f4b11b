#!/usr/bin/env python3
"""The error of PyTorch's matrix products, as `gemm_error` prints that of dlprim's engines: root mean square of the error
over that of the result, numbers in [-1, 1), 96 x 160 results; with --large the first 16 rows of 4096^3 and 8192^3.

  bench/reference/gemm_error.py --device cuda [--large]
"""
import argparse

import torch


def error(device, dtype, m, n, k, checked):
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.rand(shape, generator=generator) * 2 - 1 for shape in ((m, k), (n, k)))
    product = (a.to(device, dtype) @ b.to(device, dtype).T)[:checked].double().cpu()
    expected = a[:checked].double() @ b.double().T
    return ((product - expected).square().sum() / expected.square().sum()).sqrt().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    device = options.device
    sizes = {f"K = {k}": (96, 160, k, 96) for k in (256, 4096, 65536)}
    if options.large:
        sizes = {f"{k}^3": (k, k, k, 16) for k in (4096, 8192)}
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else device}\n")
    print("| mode | " + " | ".join(sizes) + " |\n|---|" + "---|" * len(sizes))
    for name, dtype, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("f16", torch.float16, False),
                              ("bf16", torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        print(f"| {name} | " + " | ".join(f"{error(device, dtype, *size):.2e}" for size in sizes.values()) + " |")


if __name__ == "__main__":
    main()
