"""Optimizers over a net's parameters as PyTorch has them, for bench/compare: fused where there is such a form, else with
lists of tensors (foreach)."""
import math

import torch

from check import expecting
from operands import uniform

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}, True), "momentum": (torch.optim.SGD, {"momentum": 0.9}, True),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}, True),
    "adam": (torch.optim.Adam, {}, True), "adamw": (torch.optim.AdamW, {"weight_decay": 0}, True),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}, True), "rmsprop": (torch.optim.RMSprop, {}, False),
    "adagrad": (torch.optim.Adagrad, {"eps": 1e-8}, False),
}


def resnet50():
    shapes, channels = [], 64

    def convolution(k, c, window):
        shapes.extend([(k, c, window, window), (k,), (k,)])

    convolution(64, 3, 7)
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            width = 64 << stage
            convolution(width, channels, 1)
            convolution(width, width, 3)
            convolution(4 * width, width, 1)
            if block == 0:
                convolution(4 * width, channels, 1)
            channels = 4 * width
    return shapes + [(1000, 2048), (1000,)]


def prepare(fields, device, dtype):
    f, shapes = fields["f"], resnet50()
    if fields.get("net", "resnet50") == "flat":
        shapes = [(sum(math.prod(shape) for shape in shapes),)]
    dw = [uniform(f"dw{i}", shape, device, dtype) for i, shape in enumerate(shapes)]
    if f == "norm":
        return lambda: torch.nn.utils.get_total_norm(dw)
    w = [uniform(f"w{i}", shape, device, dtype).requires_grad_() for i, shape in enumerate(shapes)]
    if f in ("clip", "clip_value"):
        for parameter, gradient in zip(w, dw):
            parameter.grad = gradient
    if f == "clip":
        return lambda: (torch.nn.utils.clip_grad_norm_(w, 1.0), dw)[1]
    if f == "clip_value":
        return lambda: (torch.nn.utils.clip_grad_value_(w, 1.0), dw)[1]
    if f == "unscale":
        found, inverse = torch.zeros(1, device=device), torch.ones(1, device=device)
        return lambda: (torch._amp_foreach_non_finite_check_and_unscale_(dw, found, inverse), dw)[1]
    if f == "add":
        return lambda: torch._foreach_add([x.detach() for x in w], dw, alpha=0.5)
    if f == "average":
        averages = [x.detach() for x in w]
        return lambda: (torch._foreach_lerp_(averages, dw, 0.001), averages)[1]
    make, options, can_fuse = OPTIMIZERS[f]
    if make is torch.optim.Adam or make is torch.optim.AdamW:
        options = {**options, "capturable": device == "cuda"}  # in a CUDA graph
    # PyTorch 2.13's fused SGD for CPUs changes only the last few elements of a tensor of 16-bit floats.
    if make is torch.optim.SGD and device == "cpu" and dtype.itemsize == 2:
        can_fuse = False
    form = {"fused": True} if can_fuse else {"foreach": True}

    def step(w, dw):
        for parameter, gradient in zip(w, dw):
            parameter.grad = gradient
        optimizer = make(w, lr=0.1, **options, **form)
        return lambda: (optimizer.step(), w)[1]

    if dtype.itemsize != 2:
        return step(w, dw)
    # PyTorch's states have the weights' dtype, dlprim's are f32.
    wide = [[x.detach().float().clone().requires_grad_(x.requires_grad) for x in list_] for list_ in (w, dw)]
    return step(w, dw), expecting(lambda: step(*wide)(), "PyTorch's result in f32")
