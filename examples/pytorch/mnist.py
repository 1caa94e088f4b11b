"""Trains a small network on Fashion-MNIST, or on MNIST's files, on any PyTorch device.

    python examples/pytorch/mnist.py --device ocl:0 --epochs 1

The files come with the package dataset-fashion-mnist (scripts/deps data).
"""

import argparse
import gzip
import os
import pathlib
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
import torch  # noqa: E402
from torch import nn  # noqa: E402


def read(folder, part):
    """Images [N, 1, 28, 28] of bytes and labels [N], out of IDX files, gzipped or not."""

    def content(name):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.exists():
                data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
                return torch.frombuffer(bytearray(data), dtype=torch.uint8)
        raise SystemExit(f"{folder / name}: no such file, gzipped or not; scripts/deps data installs it")

    images = content(f"{part}-images-idx3-ubyte")[16:].reshape(-1, 1, 28, 28)
    return images, content(f"{part}-labels-idx1-ubyte")[8:].long()


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def normalised(images, device):
    return images.to(device).float().div_(255).sub_(0.2860).div_(0.3530)


@torch.no_grad()
def accuracy(model, images, labels, device, batch):
    model.eval()
    right = sum((model(normalised(x, device)).argmax(1) == y.to(device)).sum()
                for x, y in zip(images.split(batch), labels.split(batch)))
    return right.item() / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, help="at most so many in an epoch")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    images, labels = read(options.data, "train")
    test_images, test_labels = read(options.data, "t10k")
    model = network().to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    order = torch.Generator().manual_seed(options.seed)
    for epoch in range(options.epochs):
        start, losses = time.time(), []
        model.train()
        for chosen in torch.randperm(len(images), generator=order).split(options.batch)[:options.steps]:
            optimizer.zero_grad()
            logits = model(normalised(images[chosen], options.device))
            loss = nn.functional.cross_entropy(logits, labels[chosen].to(options.device))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean().item()
        seconds = time.time() - start
        right = accuracy(model, test_images, test_labels, options.device, 500)
        print(f"epoch {epoch + 1}: loss {mean:.4f}, test accuracy {100 * right:.2f} %, {len(losses)} steps in {seconds:.1f} s")
    if options.device.startswith("ocl"):
        print(torch.ocl.fallbacks())


if __name__ == "__main__":
    main()
