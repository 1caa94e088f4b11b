"""All tests run with the CPU forbidden (OCL_FALLBACK=error) but where they say otherwise."""

import math
import os
import subprocess
import sys
import time

import pytest

os.environ.setdefault("OCL_FALLBACK", "error")
os.environ.setdefault("DLPRIM_POISON", "1")  # what reads memory that nobody wrote is to be wrong

import torch  # noqa: E402
import torch_ocl  # noqa: E402

torch_ocl.load()  # does nothing where PyTorch has done so
os.environ["TORCH_OCL_AUTOLOAD"] = "1"  # processes that tests start, also beside CUDA


def pytest_report_header():
    return f"torch {torch.__version__}, ocl:0 is {torch.ocl.get_device_name(0)}"


@pytest.fixture
def fallback_allowed():
    before = torch.ocl.set_fallback_mode("silent")
    torch.ocl.reset_fallbacks()
    yield
    torch.ocl.set_fallback_mode(before)


@pytest.fixture(scope="session")
def busy():
    """busy(seconds) gives the current stream about that much work, returns at once and gives the work's result."""

    def multiply(matrix, times):
        x = matrix
        for _ in range(times):
            x = x @ matrix
        return x

    def measured(matrix, times):
        torch.ocl.synchronize()
        start = time.perf_counter()
        multiply(matrix, times)
        torch.ocl.synchronize()
        return (time.perf_counter() - start) / times

    n = 256
    while True:  # until a product takes much longer than its call
        matrix = torch.full((n, n), 1 / n, device="ocl")
        measured(matrix, 1)
        each = min(measured(matrix, 10) for _ in range(5))  # other programs may keep the device
        if each > 5e-4:
            break
        n *= 2
    return lambda seconds: multiply(matrix, math.ceil(seconds / each))


@pytest.fixture
def python():
    """Runs a text in a process of its own; gives what it printed, or fails with what it said."""

    def run(text, code=0, **environment):
        start = "import torch, torch_ocl\ntorch_ocl.load()\n"
        done = subprocess.run(
            [sys.executable, "-c", start + text],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
