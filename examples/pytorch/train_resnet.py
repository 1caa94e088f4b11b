"""Trains one of torchvision's networks on any PyTorch device; prints the loss, images a second and memory.

    python examples/pytorch/train_resnet.py --device ocl:0                        # resnet18 on Fashion-MNIST, 32 x 32
    python examples/pytorch/train_resnet.py --model resnet50 --random 224 --batch 64 --autocast bfloat16 --channels-last

Fashion-MNIST comes with the package dataset-fashion-mnist (scripts/deps data). --random measures with random images of that size.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
import torch  # noqa: E402
from torch import nn  # noqa: E402

from mnist import read  # noqa: E402
from torchvision_models import classifier  # noqa: E402


def images_and_labels(options):
    if options.random:
        generator = torch.Generator().manual_seed(options.seed)
        return (torch.rand(options.batch, 3, options.random, options.random, generator=generator),
                torch.randint(0, 10, (options.batch,), generator=generator))
    images, labels = read(options.data, "train")
    images = nn.functional.pad(images.float().div_(255).sub_(0.2860).div_(0.3530), (2, 2, 2, 2), value=-0.81)
    return images.expand(-1, 3, -1, -1), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--random", type=int, metavar="PIXELS", help="random images of this size")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--autocast", choices=["float16", "bfloat16"], help="compute in this dtype where it is safe")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--fused", action="store_true", help="the fused optimizer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    kind = torch.device(options.device).type
    images, labels = images_and_labels(options)
    model = classifier(options.model, num_classes=10).to(options.device, memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4, fused=options.fused)
    scaler = torch.amp.GradScaler(kind, enabled=options.autocast == "float16")

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(kind, getattr(torch, options.autocast or "bfloat16"), enabled=bool(options.autocast)):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    order = torch.Generator().manual_seed(options.seed)
    losses, start = [], time.time()
    for number in range(options.steps):
        chosen = torch.randint(0, len(images), (options.batch,), generator=order)
        x = images[chosen].to(options.device, memory_format=layout)
        losses.append(step(x, labels[chosen].to(options.device)))
        if number == 0:
            print(f"first step: loss {losses[0].item():.4f}, {time.time() - start:.2f} s", flush=True)
            start = time.time()
        elif (number + 1) % max(1, options.steps // 5) == 0:
            mean = torch.stack(losses[-options.steps // 5:]).mean().item()
            rate = number * options.batch / (time.time() - start)
            print(f"step {number + 1}: loss {mean:.4f}, {rate:.1f} images/s", flush=True)
    if kind != "cpu":
        print(f"memory at the peak: {torch.accelerator.max_memory_allocated() / 2**20:.0f} MiB")
    if kind == "ocl":
        print(torch.ocl.fallbacks())


if __name__ == "__main__":
    main()
