"""Networks by name (`dlprim networks`) against PyTorch on the same device, in one run: how many times as fast dlprim is.

    python bench/named_networks.py --device "NVIDIA CUDA" --dtype f32 tf32 bf16
    python bench/named_networks.py vgg16 resnet50 --work training --against eager compile --minutes 8 --out rows.json
    python bench/named_networks.py resnet18 --reference cpu --batch 8

Ours is `dlprim bench NETWORK`: the median of runs bound to their tensors, or of training steps with Adam, once before and once
after PyTorch's; the mean of both counts. PyTorch's is torchvision's network with random weights and images, dropout included, the
median of as many seconds: eager, with cudnn.benchmark; eager with channels last (last); torch.compile with its defaults, with
channels last but in f32 (compile); a CUDA graph of eager (graph). Training is a step with its fused Adam. dtypes: f32; tf32 (factors
of products may be rounded); bf16 (PyTorch's autocast). A ratio is PyTorch's time over ours. Memory: the peak of what is allocated,
ours and PyTorch's first kind's, MB (not on a CPU).
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

from torch_networks import NETWORKS, allow_tf32, classifier, synchronize

KINDS = ["eager", "last", "compile", "graph"]
SIZES = {"efficientnet_b4": 380, "inception_v3": 299}  # of images, in pixels; the others: 224
ROOT = pathlib.Path(__file__).resolve().parents[1]


def ours(name, training, dtype, options):
    """The record of `dlprim bench`."""
    command = [str(options.program), "bench", name, "--batch", str(options.batch), "--json", "--seconds", str(options.seconds)]
    command += ["--device", options.device] if options.device else []
    command += ["--train"] if training else []
    command += {"f32": [], "tf32": ["--math", "tf32"], "bf16": ["--dtype", "bf16"]}[dtype]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {run.stderr.strip()}")
    return json.loads(run.stdout.splitlines()[-1])


class Reference:
    """PyTorch's network and a batch for it; run() is what is timed."""

    def __init__(self, name, training, dtype, kind, options):
        self.device = torch.device(options.reference)
        last = kind == "last" or (kind == "compile" and dtype != "f32")
        layout = torch.channels_last if last else torch.contiguous_format
        torch.manual_seed(0)
        allow_tf32(self.device, dtype != "f32")
        self.network = classifier(name).to(self.device, memory_format=layout).train(training)
        size = SIZES.get(name, 224)
        self.images = torch.rand(options.batch, 3, size, size, device=self.device).to(memory_format=layout)
        self.classes = torch.randint(0, 1000, (options.batch,), device=self.device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()
        self.optimizer = torch.optim.Adam(self.network.parameters(), fused=True) if training else None
        torch._dynamo.reset()
        self.forward = torch.compile(self.network) if kind == "compile" else self.network
        self.run = self.step if training else self.infer
        if kind == "graph":
            self.run = self.captured(self.run)

    def infer(self):
        with torch.no_grad(), self.autocast:
            return self.forward(self.images)

    def step(self):
        self.optimizer.zero_grad()
        with self.autocast:
            loss = nn.functional.cross_entropy(self.forward(self.images), self.classes)
        loss.backward()
        self.optimizer.step()

    def captured(self, run):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def measured(self, seconds):
        """Milliseconds, and of the first run; peak bytes."""
        times, end = [], math.inf
        while len(times) < 8 or time.perf_counter() < end:
            synchronize(self.device)
            start = time.perf_counter()
            self.run()
            synchronize(self.device)
            times.append(time.perf_counter() - start)
            if len(times) == 4:  # it is warm
                end = time.perf_counter() + seconds
        peak = torch.cuda.max_memory_allocated() if self.device.type == "cuda" else 0
        return {"ms": 1e3 * statistics.median(times[4:]), "first_ms": 1e3 * times[0], "peak_mb": peak / 1e6}


def compare(name, training, dtype, options):
    row = {"network": name, "work": "training" if training else "inference", "dtype": dtype, "batch": options.batch}
    records = [ours(name, training, dtype, options)]
    for kind in options.against:
        if options.reference.startswith("cuda"):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        row[kind] = Reference(name, training, dtype, kind, options).measured(options.seconds)
    if options.reference.startswith("cuda"):
        torch.cuda.empty_cache()
    records.append(ours(name, training, dtype, options))
    row["ours"] = {**records[0], "ms": statistics.mean(record["p50_ms"] for record in records)}
    return row


def cell(row, kind):
    return f"{row[kind]['ms']:9.2f} ({row[kind]['ms'] / row['ours']['ms']:5.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/dlprim")
    parser.add_argument("--device", default="", help="ours, as `dlprim devices` shows them; none: the default one")
    parser.add_argument("--reference", default="cuda", help="PyTorch's device")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--work", nargs="+", choices=["inference", "training"], default=["inference", "training"])
    parser.add_argument("--dtype", nargs="+", choices=["f32", "tf32", "bf16"], default=["f32"])
    parser.add_argument("--against", nargs="+", choices=KINDS, default=["eager"])
    parser.add_argument("--seconds", type=float, default=0.5, help="of timing, for each side and row")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begins no further row then")
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file of the rows")
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    end, rows = time.monotonic() + 60 * options.minutes, []
    print(f"torch {torch.__version__}; {os.cpu_count()} processors; batch {options.batch}; ms (times as fast)")
    print(f"{'':32}{'ours':>9}" + "".join(f"{kind:>18}" for kind in options.against) + f"{'memory':>16}")
    for work in options.work:
        for dtype in options.dtype:
            group = []
            for name in options.networks:
                if time.monotonic() > end:
                    print(f"{name:14} {work:10} {dtype:5} left out: no time")
                    continue
                row = compare(name, work == "training", dtype, options)
                group.append(row)
                memory = "".join(f"{row[side]['peak_mb']:8.0f}" for side in ("ours", options.against[0]))
                print(f"{name:14} {work:10} {dtype:5} {row['ours']['ms']:9.2f}" +
                      "".join(f"{cell(row, kind):>18}" for kind in options.against) + memory, flush=True)
                if options.out:
                    options.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows + group}, indent=1))
            if group:
                means = (statistics.geometric_mean(row[kind]["ms"] / row["ours"]["ms"] for row in group) for kind in options.against)
                print(f"{'geometric mean':14} {work:10} {dtype:5} {'':9}" + "".join(f"{mean:>17.2f} " for mean in means))
            rows += group


if __name__ == "__main__":
    main()
