#!/usr/bin/env python3
"""The error of PyTorch's matrix products, as `gemm_error` prints that of dlprim's engines: root mean square of the error
over that of the result, numbers in [-1, 1), 96 x 160 results.

  bench/reference/gemm_error.py --device cuda
"""
import argparse

import torch


def error(device, dtype, k):
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.rand(shape, generator=generator) * 2 - 1 for shape in ((96, k), (k, 160)))
    product = (a.to(device, dtype) @ b.to(device, dtype)).double().cpu()
    expected = a.double() @ b.double()
    return ((product - expected).square().sum() / expected.square().sum()).sqrt().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    sizes = (256, 4096, 65536)
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else device}\n")
    print("| mode | " + " | ".join(f"K = {k}" for k in sizes) + " |\n|---|---|---|---|")
    for name, dtype, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("f16", torch.float16, False),
                              ("bf16", torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        print(f"| {name} | " + " | ".join(f"{error(device, dtype, k):.2e}" for k in sizes) + " |")


if __name__ == "__main__":
    main()
