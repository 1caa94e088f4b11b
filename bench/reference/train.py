#!/usr/bin/env python3
"""Images a second that PyTorch trains on the network of `dlprim train` (tools/dlprim/classifier.cpp): the reference of
docs/benchmarks.md. The images are random, and on the device from the start.
"""
import argparse
import time

import torch
from torch import nn


def make_net():
    layers = []
    for channels, filters in ((1, 16), (16, 32)):
        layers += [nn.Conv2d(channels, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters), nn.MaxPool2d(2),
                   nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.25),
                         nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--device", default="cpu", help="as PyTorch names it")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, help="on the CPU; PyTorch's choice if not given")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    net = make_net().to(options.device)
    solver = torch.optim.Adam(net.parameters(), lr=0.002)
    x = torch.randn(options.batch, 1, 28, 28, device=options.device)
    labels = torch.randint(0, 10, (options.batch,), device=options.device)

    def step():
        solver.zero_grad()
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        solver.step()
        return loss

    for _ in range(5):
        step().item()
    start = time.perf_counter()
    for _ in range(options.steps):
        loss = step()
    loss.item()  # waits for the device
    rate = options.batch * options.steps / (time.perf_counter() - start)
    print(f"PyTorch {torch.__version__} on {options.device}: {rate:.0f} images/s")


if __name__ == "__main__":
    main()
