"""What an operator costs the host: chains of many small operators on one device and on another, in one run.

    python bench/torch_host_cost.py --device ocl:0 --reference cuda:0
    python bench/torch_host_cost.py --reference cpu

A chain is --length operators, each on the result of the one before, on tensors of --elements elements (mm: a square of so many).
Each chain is timed with the device's queue empty at its start: "us" until the last call returns, which is the host's work, and "all"
until the device has done it too. Devices take turns; numbers are medians of --rounds, for each operator. A ratio is the host's time over
the reference's: above 1 is slower.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # also beside CUDA
import torch  # noqa: E402


def add(x, other):
    return x + other


def add_out(x, other):
    return torch.add(x, other, out=x)


def mm(x, other):
    return x @ other


def relu(x, other):
    return torch.relu(x)


def network(x, other):
    """As a layer of a network: a product, a sum, an activation."""
    return torch.relu(x @ other + other)


CHAINS = {"add": (add, 1), "add, out": (add_out, 1), "mm": (mm, 1), "relu": (relu, 1), "mm add relu": (network, 3)}


class Chain:
    def __init__(self, device, function, operators, options):
        side = math.isqrt(options.elements)
        self.device, self.function = device, function
        self.count = options.length // operators
        self.operators = self.count * operators
        self.x = torch.ones(side, side, device=device)
        self.other = torch.eye(side, device=device)

    def synchronize(self):
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def run(self):
        """Microseconds an operator: of the host, and until the device is done."""
        self.synchronize()
        function, x, other = self.function, self.x, self.other
        start = time.perf_counter()
        for _ in range(self.count):
            x = function(x, other)
        returned = time.perf_counter()
        self.synchronize()
        return [(at - start) / self.operators * 1e6 for at in (returned, time.perf_counter())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--reference", default="cpu")
    parser.add_argument("--length", type=int, default=1000, help="operators of a chain")
    parser.add_argument("--elements", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file of the rows")
    options = parser.parse_args()

    devices = [torch.device(options.device), torch.device(options.reference)]
    print(f"torch {torch.__version__}, {options.length} operators, {options.elements} elements, us an operator")
    print(f"{'':12} {options.device:>8} {options.reference:>8} {'ratio':>6}   until the device is done: {options.device} {options.reference}")
    rows = []
    with torch.no_grad():
        for name, (function, operators) in CHAINS.items():
            chains = [Chain(device, function, operators, options) for device in devices]
            for chain in chains:
                chain.run(), chain.run()
            times = [[chain.run() for chain in chains] for _ in range(options.rounds)]
            (mine, all_mine), (reference, all_reference) = ([statistics.median(column) for column in zip(*(t[i] for t in times))]
                                                            for i in (0, 1))
            print(f"{name:12} {mine:8.2f} {reference:8.2f} {mine / reference:6.2f}   {all_mine:8.2f} {all_reference:8.2f}", flush=True)
            rows.append({"chain": name, "us": mine, "reference_us": reference, "done_us": all_mine, "reference_done_us": all_reference})
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "length": options.length, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
