"""PyTorch's networks on one device and on another, in one run: how many times as fast the first is.

    python bench/torch_networks.py --device ocl:0 --reference cuda:0 --batch 64
    python bench/torch_networks.py alexnet resnet18 mobilenet_v2 --reference cpu --batch 8 --dtype f32 --out ocl.json

Networks are torchvision's, with random weights and images; gpt2 is a GPT-2 of the small size (--batch texts of 1,024 random tokens).
inference: forward in evaluation mode, without gradients. training: forward, backward and a step of SGD with momentum (gpt2: AdamW),
both with the device's fused optimizer where it has one. dtypes: f32; tf32 (products of f32 may round their factors); bf16 and f16
(autocast, images with channels last). Each device has a process of its own, since PyTorch trains on one accelerator in a process
(pytorch/pytorch#161129). They take turns; a time is the median, with the device's queue empty at both ends. A ratio is the reference's
time over the device's.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples" / "pytorch"))
from torchvision_models import classifier  # noqa: E402

NETWORKS = ["alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2"]
AUTOCAST = {"bf16": torch.bfloat16, "f16": torch.float16}


def module_of(device):
    return getattr(torch, device.type)


def synchronize(device):
    if device.type != "cpu":
        module_of(device).synchronize()


def allow_tf32(device, allowed):
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    elif device.type == "ocl":
        torch.backends.ocl.matmul.allow_tf32 = torch.backends.ocl.conv.allow_tf32 = allowed


class Classifier:
    """A network of torchvision's and a batch for it."""

    def __init__(self, name, batch, size, layout):
        self.model = classifier(name).to(memory_format=layout)
        self.inputs = torch.rand(batch, 3, size, size).to(memory_format=layout)
        self.targets = torch.randint(0, 1000, (batch,))

    def optimizer(self, fused):
        return torch.optim.SGD(self.model.parameters(), 1e-3, momentum=0.9, fused=fused)

    def output(self):
        return self.model(self.inputs)

    def loss(self):
        return nn.functional.cross_entropy(self.output(), self.targets)


class Gpt2(Classifier):
    LENGTH = 1024

    def __init__(self, batch):
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(GPT2Config(use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        self.inputs = torch.randint(0, 50257, (batch, self.LENGTH))
        self.targets = self.inputs

    def optimizer(self, fused):
        return torch.optim.AdamW(self.model.parameters(), 1e-4, fused=fused)

    def output(self):
        return self.model(self.inputs).logits

    def loss(self):
        return self.model(self.inputs, labels=self.targets).loss


class Work:
    """What is repeated and timed: a network on a device, inference or training."""

    def __init__(self, name, device, training, dtype, options):
        torch.manual_seed(0)
        layout = torch.channels_last if dtype in AUTOCAST else torch.contiguous_format
        self.device, self.dtype, self.training = device, dtype, training
        self.network = Gpt2(options.batch) if name == "gpt2" else Classifier(name, options.batch, options.size, layout)
        network = self.network
        network.model.to(device).train(training)
        network.inputs, network.targets = network.inputs.to(device), network.targets.to(device)
        self.optimizer = network.optimizer(device.type != "cpu") if training else None
        if device.type != "cpu":
            module_of(device).reset_peak_memory_stats()

    def run(self):
        autocast = torch.autocast(self.device.type, AUTOCAST[self.dtype]) if self.dtype in AUTOCAST else contextlib.nullcontext()
        if not self.training:
            with torch.no_grad(), autocast:
                return self.network.output()
        self.optimizer.zero_grad()
        with autocast:
            loss = self.network.loss()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def seconds(self, times):
        allow_tf32(self.device, self.dtype == "tf32")
        synchronize(self.device)
        start = time.perf_counter()
        for _ in range(times):
            self.run()
        synchronize(self.device)
        return (time.perf_counter() - start) / times

    def peak(self):
        return module_of(self.device).max_memory_allocated() if self.device.type != "cpu" else 0


class Serving:
    """What runs in a device's own process: answers, one after the other."""

    def __init__(self, device, options):
        self.device, self.options, self.work = torch.device(device), options, None

    def name(self):
        return "CPU" if self.device.type == "cpu" else module_of(self.device).get_device_name(self.device)

    def begin(self, name, training, dtype):
        self.work = None  # its memory goes first
        self.work = Work(name, self.device, training, dtype, self.options)
        return self.work.seconds(1)

    def seconds(self, times):
        return self.work.seconds(times)

    def peak(self):
        return self.work.peak()

    def fallbacks(self):
        return str(torch.ocl.fallbacks()) if self.device.type == "ocl" else ""


def serve(connection, device, options):
    serving = Serving(device, options)
    while (asked := connection.recv()) is not None:
        try:
            connection.send((getattr(serving, asked[0])(*asked[1:]), None))
        except Exception as e:
            connection.send((None, f"{device}: {type(e).__name__}: {e}"))


class Device:
    """A device in a process of its own: serving's methods by their names."""

    def __init__(self, device, options):
        # A process asks for the device that it serves: beside CUDA, ocl is there only if asked for.
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = os.environ["TORCH_OCL_AUTOLOAD"] = str(int(device.startswith("ocl")))
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, device, options), daemon=True)
        self.process.start()
        other.close()

    def __getattr__(self, name):
        def ask(*arguments):
            self.connection.send((name, *arguments))
            result, error = self.connection.recv()
            if error:
                sys.exit(error)
            return result

        return ask

    def end(self):
        self.connection.send(None)
        self.process.join()


def compare(devices, name, training, dtype, options):
    """Times, first ones and memory of both devices. Each has the time of --seconds."""
    first = [device.begin(name, training, dtype) for device in devices]
    for device in devices:
        device.seconds(2)
    times = [max(1, math.ceil(options.seconds / options.rounds / device.seconds(2))) for device in devices]
    rounds = [[device.seconds(n) for device, n in zip(devices, times)] for _ in range(options.rounds)]
    mine, reference = (statistics.median(column) for column in zip(*rounds))
    return {"network": name, "work": "training" if training else "inference", "dtype": dtype, "batch": options.batch,
            "ms": mine * 1e3, "reference_ms": reference * 1e3, "ratio": reference / mine,
            "first_s": first[0], "reference_first_s": first[1], "peak_bytes": devices[0].peak(),
            "reference_peak_bytes": devices[1].peak()}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--reference", default="cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224, help="of images, in pixels")
    parser.add_argument("--work", nargs="+", choices=["inference", "training"], default=["inference", "training"])
    parser.add_argument("--dtype", nargs="+", choices=["f32", "tf32", *AUTOCAST], default=["f32"])
    parser.add_argument("--seconds", type=float, default=1.5, help="of timing, for each device and row")
    parser.add_argument("--rounds", type=int, default=5, help="how often the devices take turns")
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file of the rows")
    options = parser.parse_args()

    devices = [Device(options.device, options), Device(options.reference, options)]
    names = [device.name() for device in devices]
    print(f"torch {torch.__version__}; {options.device}: {names[0]}; {options.reference}: {names[1]}; batch {options.batch}")
    print(f"{'':34}{options.device:>10} {options.reference:>10} {'ratio':>7} {'first':>8} {'memory':>8}")
    rows = []
    for dtype in options.dtype:
        for work in options.work:
            group = []
            for name in options.networks:
                row = compare(devices, name, work == "training", dtype, options)
                group.append(row)
                memory = row["peak_bytes"] / row["reference_peak_bytes"] if row["reference_peak_bytes"] else math.nan
                print(f"{name:14} {work:10} {dtype:5} ms {row['ms']:12.2f} {row['reference_ms']:10.2f} {row['ratio']:7.2f} "
                      f"{row['first_s']:6.2f} s {memory:8.2f}", flush=True)
                if options.out:
                    options.out.write_text(json.dumps({"torch": torch.__version__, "device": names[0], "reference": names[1],
                                                       "rows": rows + group}, indent=1))
            mean = statistics.geometric_mean(row["ratio"] for row in group)
            print(f"{'geometric mean':14} {work:10} {dtype:5} {'':26}{mean:7.2f}")
            rows += group
    print(devices[0].fallbacks())
    for device in devices:
        device.end()


if __name__ == "__main__":
    main()
