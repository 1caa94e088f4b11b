#!/usr/bin/env python3
"""Writes the shape files beside it: the distinct convolutions of torchvision's networks, in order of first appearance.

Needs PyTorch and torchvision. Networks are built without weights on the meta device, where nothing is computed, and in
training mode, so that inception's second classifier runs too.
"""
import collections
import itertools
import pathlib

import torch
import torchvision

BATCH = 64
SIZES = {  # the usual size of an image
    "alexnet": 224, "resnet18": 224, "resnet50": 224, "vgg16": 224, "mobilenet_v2": 224, "efficientnet_b0": 224,
    "densenet121": 224, "inception_v3": 299, "resnext50_32x4d": 224, "convnext_tiny": 224,
}


def line(conv, x):
    """The convolution of x as a case of bench/compare, without the fields that have their default."""
    def field(name, values, default):
        return "" if all(v == default for v in values) else f" {name}=" + "x".join(map(str, values))

    assert conv.padding_mode == "zeros" and not isinstance(conv.padding, str), conv
    return (f"conv direction=forward n={x.shape[0]} c={x.shape[1]}" + field("size", x.shape[2:], None) +
            f" k={conv.out_channels}" + field("window", conv.kernel_size, None) + field("stride", conv.stride, 1) +
            field("pad", conv.padding, 0) + field("dilation", conv.dilation, 1) + field("groups", [conv.groups], 1) +
            " dtype=f32 math=strict")


def convolutions(name, size):
    """How often each one occurs, in order of first appearance."""
    counts = collections.Counter()
    with torch.device("meta"):
        network = getattr(torchvision.models, name)(weights=None).train()
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_pre_hook(lambda conv, inputs: counts.update([line(conv, inputs[0])]))
        network(torch.empty(BATCH, 3, size, size))
    return counts


def main():
    for name, size in SIZES.items():
        counts = convolutions(name, size)
        with open(pathlib.Path(__file__).with_name(name + ".txt"), "w") as out:
            out.write(f"# {name}, images of {size} x {size}: {counts.total()} convolutions, {len(counts)} of them "
                      f"distinct, in order of first appearance.\n")
            for count, lines in itertools.groupby(counts, counts.get):
                out.write(f"# {count} times each:\n" if count > 1 else "# Once each:\n")
                out.writelines(text + "\n" for text in lines)


if __name__ == "__main__":
    main()
