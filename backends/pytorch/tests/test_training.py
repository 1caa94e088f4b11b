"""A small convolutional network trains as on the CPU, step by step, and nothing runs there."""

import gc
import os
import resource
import time

import pytest
import torch
from torch import nn

from compare import same

F = nn.functional


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(12 * 6 * 6, 32), nn.GELU(), nn.Linear(32, 10))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 2e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 2e-3, foreach=True),
}


def train(device, optimizer, steps=12, channels_last=False, clip=False):
    model = network().to(device)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 10, (steps, 32), generator=generator)
    images = torch.randn(steps, 32, 1, 28, 28, generator=generator) * 0.5
    images += labels[:, :, None, None, None] / 5 * torch.linspace(-1, 1, 28)  # there is something to learn
    made = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for x, y in zip(images, labels):
        x, y = x.to(device), y.to(device)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        made.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05 if clip else 0.0)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        made.step()
        losses.append(loss.detach())
    model.eval()
    with torch.no_grad():
        logits = model(images[0].to(device))
    return torch.stack(losses).cpu(), logits.cpu()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_are_the_cpus(optimizer):
    torch.ocl.reset_fallbacks()
    losses, logits = train("ocl", optimizer)
    expected, expected_logits = train("cpu", optimizer)
    assert expected[-1] < 0.9 * expected[0]
    torch.testing.assert_close(losses, expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(logits, expected_logits, rtol=2e-2, atol=2e-2)
    assert torch.ocl.fallbacks() == {}


def test_channels_last_and_clipping():
    losses, _ = train("ocl", "sgd", channels_last=True, clip=True)
    expected, _ = train("cpu", "sgd", clip=True)
    torch.testing.assert_close(losses, expected, rtol=2e-3, atol=2e-3)


def test_two_runs_give_the_same_bits():
    assert torch.equal(train("ocl", "adam", 5)[0], train("ocl", "adam", 5)[0])


def test_programs_are_not_made_for_steps():
    train("ocl", "sgd", 2)
    before = torch.ocl.program_counts()["built"]
    train("ocl", "sgd", 4)
    assert torch.ocl.program_counts()["built"] == before


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc to read the process's memory from")
def test_steps_take_no_more_memory_and_no_more_time():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2),
                          nn.Flatten(), nn.Linear(8 * 4 * 4, 10)).to("ocl")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def steps(count):
        """Seconds of the fastest ten."""
        best = float("inf")
        for _ in range(count // 10):
            begin = time.perf_counter()
            for _ in range(10):
                x, y = torch.randn(16, 3, 8, 8).to("ocl"), torch.randint(0, 10, (16,)).to("ocl")
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            torch.ocl.synchronize()
            best = min(best, time.perf_counter() - begin)
        optimizer.zero_grad()
        gc.collect()
        return best

    def state():
        return torch.ocl.memory_allocated(), torch.ocl.memory_reserved(), torch.ocl.program_counts()["built"]

    seconds = steps(50)
    before, resident = state(), resident_bytes()
    again = steps(300)
    assert state() == before
    assert resident_bytes() < resident + (2 << 20)  # 7 KiB a step
    assert again < 2 * seconds


def test_dropout_and_embeddings_train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.SiLU(), nn.Dropout(0.1),
                          nn.Linear(32, 50)).to("ocl")
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    words = torch.randint(0, 50, (8, 12)).to("ocl")
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(words).flatten(0, 1), (words.flatten() + 1) % 50)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_group_norm_network_of_halves():
    for dtype in (torch.float16, torch.bfloat16):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(2),
                              nn.Flatten(), nn.Linear(32, 5)).to(dtype)
        w = [p.detach() for p in model.parameters()]
        names = [n for n, _ in model.named_parameters()]
        same(lambda x, *w: torch.func.functional_call(model, dict(zip(names, w)), (x,)), torch.randn(2, 3, 9, 9).to(dtype),
             *w, tolerance=64 * torch.finfo(dtype).eps)
