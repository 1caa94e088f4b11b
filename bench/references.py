"""What bench/compare times: dlprim's program `measure`, and the references. Each reference has `name`, `device` and `ops`,
and gives of a case `results()` of its first run, to be compared, `milliseconds()` and, of a GPU, `device_milliseconds()`.
"""
import importlib
import math
import os
import pathlib
import subprocess
import tempfile
import time

import check
from operands import WAITS, hashed, laid_out, uniform
from report import Conv, fields_of, op_of


class Dlprim:
    """The program `measure`, asked line by line."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip("\n")
        if not answer or answer.startswith("error"):
            raise RuntimeError(answer or "measure has ended")
        return answer

    def facts(self):
        return dict(zip(("device", "platform", "driver", "kind", "compute_units"), self.ask("facts").split("\t")))

    def results(self, case, device="cpu"):
        """Runs a new case once: the engine that ran, the bytes that it had to move, and its results, flat."""
        import torch

        dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
                  "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
        with tempfile.TemporaryDirectory() as folder:
            engine, moved, *kinds = self.ask(f"check {folder}/result {case}").split(" ")
            results = []
            for i, kind in enumerate(kinds):
                dtype = dtypes[kind.split(":")[0]]
                count = os.path.getsize(f"{folder}/result.{i}") // dtype.itemsize
                path = f"{folder}/result.{i}"
                flat = torch.from_file(path, size=count, dtype=dtype) if count else torch.empty(0, dtype=dtype)
                results.append(flat.to(device, copy=True))
            return engine, float(moved), results

    def milliseconds(self, case, runs):
        return float(self.ask(f"time {runs} {case}"))

    def device_milliseconds(self, case, runs):
        return float(self.ask(f"device {runs} {case}"))


class Clblast(Dlprim):
    name, device, ops = "CLBlast", "opencl", ("gemm",)

    def results(self, case):
        return super().results("clblast-" + case)[2], check.CLOSE, None

    def milliseconds(self, case, runs):
        return super().milliseconds("clblast-" + case, runs)


class Torch:
    """PyTorch. An op that moves data is torch_OP.py beside this file: `prepare(fields, device, dtype)` gives what to run,
    and beside it how to compare the results if not by check.CLOSE. `composite(fields)`, if there is one, says of which
    calls a reference is made that PyTorch has no single call for."""

    ops = ["gemm", "conv", *(path.stem.removeprefix("torch_") for path in pathlib.Path(__file__).parent.glob("torch_*.py"))]

    def __init__(self, device, threads):
        import torch

        self.torch, self.device = torch, device
        self.name = f"PyTorch {torch.__version__}"
        self.case = None
        if threads:
            torch.set_num_threads(threads)
        if device == "cuda":
            self.name += f", {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
            self.name += f", cuDNN {torch.backends.cudnn.version()}"
            torch.backends.cudnn.benchmark = True
            # Gradients are computed on the stream of what they are of, and a graph can be captured on no default stream.
            self.stream = torch.cuda.Stream()
            torch.cuda.set_stream(self.stream)

    def dtype(self, fields):
        names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
        return getattr(self.torch, names[fields.get("dtype", "f32")])

    def prepare(self, op, fields):
        backends = self.torch.backends
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = fields.get("math") == "tf32"
        if op in ("gemm", "conv"):
            return {"gemm": self.prepare_gemm, "conv": self.prepare_conv}[op](fields)
        module = importlib.import_module("torch_" + op)
        self.composite = module.composite(fields) if hasattr(module, "composite") else None
        return module.prepare(fields, self.device, self.dtype(fields))

    def close_sum(self, terms, fields):
        return check.close_sum(terms, self.dtype(fields) == self.torch.float64)

    def prepare_gemm(self, fields):
        torch = self.torch
        m, n, k, batch = (int(fields.get(name, 0)) for name in ("m", "n", "k", "batch"))
        front = [batch] if batch > 1 else []

        def operand(name, rows, columns):
            if fields.get(name) != "t":
                return uniform(name, [*front, rows, columns], self.device, self.dtype(fields))
            return uniform(name, [*front, columns, rows], self.device, self.dtype(fields)).transpose(-1, -2)

        a, b = operand("a", m, k), operand("b", k, n)
        c = torch.empty([*front, m, n], device=self.device, dtype=a.dtype)
        return lambda: torch.matmul(a, b, out=c), self.close_sum(k, fields)

    def prepare_conv(self, fields):
        torch, conv = self.torch, Conv(fields)

        def tensor(name, rows, channels, size):
            return laid_out(uniform(name, [rows, channels, *size], self.device, self.dtype(fields)), fields)

        x = tensor("x", conv.n, conv.c, conv.size)
        w = tensor("w", conv.k, conv.c // conv.groups, conv.window)
        transposed, output_padding = False, [0] * len(conv.size)
        window = (conv.stride, conv.pad, conv.dilation, transposed, output_padding, conv.groups)
        if conv.direction == "forward":
            return lambda: torch.convolution(x, w, None, *window), self.close_sum(w[0].numel(), fields)
        dy = tensor("dy", conv.n, conv.k, conv.output)
        wanted = [conv.direction == "backward_data", conv.direction == "backward_filter", False]  # dx, dw, db
        terms = conv.k // conv.groups * math.prod(conv.window) if wanted[0] else conv.n * math.prod(conv.output)
        return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *window, wanted), self.close_sum(terms, fields)

    def results(self, case):
        """Makes the case and runs it once: its results, flat, how to compare them, and what the reference is made of."""
        self.run = self.case = self.composite = None
        prepared = self.prepare(op_of(case), fields_of(case))
        self.run, compare = prepared if isinstance(prepared, tuple) else (prepared, check.CLOSE)
        self.case = case
        results = self.run()
        results = results if isinstance(results, (tuple, list)) else [results]
        flat = [x.detach().reshape(-1).clone() for x in results if x is not None]
        return flat, compare, None if self.composite == WAITS and self.device == "cpu" else self.composite

    def finish(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def milliseconds(self, case, runs):
        if case != self.case:
            self.results(case)
        self.finish()
        start = time.perf_counter()
        for _ in range(runs):
            self.run()
        self.finish()
        return (time.perf_counter() - start) / runs * 1e3

    def device_milliseconds(self, case, runs):
        """The mean of the runs in one CUDA graph, where there is neither Python nor allocation; of runs in a row between two
        events if the case cannot be captured. And which of both it was."""
        cuda, by = self.torch.cuda, "events"

        def replay():
            for _ in range(runs):
                self.run()

        if self.composite != WAITS:  # a capture cannot wait, and one that fails may spoil those behind it
            graph = cuda.CUDAGraph()
            try:
                with cuda.graph(graph, stream=self.stream):
                    replay()
                replay, by = graph.replay, "graph"
            except RuntimeError:
                cuda.synchronize()

        times = []
        for _ in range(4):
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            begin.record()
            replay()
            end.record()
            cuda.synchronize()
            times.append(begin.elapsed_time(end) / runs)
        return sorted(times[1:])[1], by


class OpenBlas(Torch):
    ops = ("gemm",)

    def __init__(self):
        import numpy

        self.numpy, self.case, self.device, self.composite = numpy, None, "cpu", None
        self.name = f"NumPy {numpy.__version__} with OpenBLAS"

    def prepare(self, op, fields):
        numpy = self.numpy
        dtype = {"f32": numpy.float32, "f64": numpy.float64}[fields.get("dtype", "f32")]
        m, n, k = (int(fields[name]) for name in ("m", "n", "k"))

        def operand(name, rows, columns):
            transposed = fields.get(name) == "t"
            shape = (columns, rows) if transposed else (rows, columns)
            numbers = (hashed(numpy.arange(rows * columns, dtype=numpy.int64), name) >> 8).astype(numpy.float32)
            x = (numbers * numpy.float32(2.0**-23) - numpy.float32(1)).astype(dtype).reshape(shape)
            return x.T if transposed else x

        a, b = operand("a", m, k), operand("b", k, n)
        c = numpy.empty((m, n), dtype)
        return lambda: numpy.matmul(a, b, out=c)

    def results(self, case):
        import torch

        self.run, self.case = self.prepare(op_of(case), fields_of(case)), case
        return [torch.from_numpy(self.run().copy()).reshape(-1)], check.CLOSE, None
