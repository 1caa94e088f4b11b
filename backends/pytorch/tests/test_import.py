"""import torch never fails."""

import os
import subprocess
import sys

import pytest
import torch


def test_without_opencl():
    text = (
        "import torch, torch_ocl\n"
        "torch_ocl._autoload()\n"
        "assert 'OpenCL' in torch_ocl.why_not(), torch_ocl.why_not()\n"
        "assert not torch.ocl.is_available() and torch.ocl.device_count() == 0 and not hasattr(torch.ocl, 'Stream')\n"
        "try: torch.ocl.synchronize(); raise SystemExit('no error')\n"
        "except AttributeError as e: assert 'no ocl device: there is no OpenCL platform' in str(e), e\n"
        "assert torch._C._get_privateuse1_backend_name() == 'privateuseone'\n"
        "assert getattr(torch.accelerator.current_accelerator(), 'type', None) in (None, 'cuda')\n"
        "try: torch.ones(1, device='ocl'); raise SystemExit('no error')\n"
        "except RuntimeError as e: assert 'device string: ocl' in str(e), e\n"
        "try: torch_ocl.load(); raise SystemExit('no error')\n"
        "except RuntimeError as e: assert 'there is no OpenCL platform' in str(e), e\n"
        "print(torch.ones(3).sum().item())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "OCL_ICD_VENDORS": "/nonexistent", "OCL_ICD_FILENAMES": ""},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3.0\n" and done.stderr == ""


def test_no_driver_starts_threads():
    """Else a child that is forked before the device is used would wait for threads that it does not have."""
    text = (
        "import os\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "import torch_ocl\n"
        "torch_ocl.load()\n"
        "after = len(os.listdir('/proc/self/task'))\n"
        "print(torch_ocl._opencl_platforms(), after - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    platforms, threads = map(int, done.stdout.split())
    assert threads == 0
    if platforms < 2:
        pytest.skip("one OpenCL platform: the loader asks it nothing")


def test_with_a_torch_it_is_not_built_for(python):
    text = (
        "import torch, torch_ocl\n"
        "if torch_ocl.why_not() is None: raise SystemExit('3.0')\n"  # loaded by import torch: nothing to see
        "torch.__version__ = '1.2.3'\n"
        "torch_ocl._autoload()\n"
        "assert 'not built for torch 1.2' in torch_ocl.why_not(), torch_ocl.why_not()\n"
        "print(torch.ones(3).sum().item())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"})
    assert "3.0" in done.stdout + done.stderr


def test_beside_another_backend():
    text = (
        "import os\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch\n"
        "torch.utils.rename_privateuse1_backend('other')\n"
        "import torch_ocl\n"
        "print(torch_ocl.why_not())\n"
        "assert not torch.ocl.is_available()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0 and "another package has taken" in done.stdout


def test_beside_an_accelerator_of_pytorchs():
    """There it is loaded when asked for: PyTorch's other devices would lose their backward(). Without a CUDA device here,
    what PyTorch says of it is made up."""
    text = (
        "import os, torch\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '1'\n"
        "torch.accelerator.current_accelerator = lambda: torch.device('cuda')\n"
        "torch.cuda.device_count = lambda: 1\n"
        "import torch_ocl\n"
        "torch_ocl._autoload()\n"
        "if not os.environ.get('TORCH_OCL_AUTOLOAD'):\n"
        "    assert 'PyTorch has cuda devices' in torch_ocl.why_not(), torch_ocl.why_not()\n"
        "    assert not torch.ocl.is_available() and torch._C._get_privateuse1_backend_name() == 'privateuseone'\n"
        "    torch_ocl.load()\n"
        "assert torch_ocl.why_not() is None\n"
        "print(torch.ones(2, device='ocl').device)\n"
    )
    for asked in ["", "1"]:
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCH_OCL_AUTOLOAD": asked})
        assert done.stdout == "ocl:0\n", done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA device here")
def test_cuda_beside_it(python):
    """Both in one process: CUDA computes, copies go both ways; training is ocl's (pytorch/pytorch#161129)."""
    assert python(
        "x = torch.arange(6.)\n"
        "y = (x.to('cuda') * 2).to('ocl') + x.to('ocl')\n"
        "print(y.to('cuda').sum().item(), torch.accelerator.current_accelerator())\n"
        "w = torch.ones(6, device='ocl', requires_grad=True)\n"
        "(w * x.to('ocl')).sum().backward()\n"
        "print(w.grad.cpu().tolist() == x.tolist())\n") == "45.0 ocl\nTrue\n"
    # Where it was not asked for, nothing changes for CUDA.
    text = "import torch; w = torch.ones(3, device='cuda', requires_grad=True); (w * 2).sum().backward(); print(w.grad.tolist())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={
        k: v for k, v in os.environ.items() if k != "TORCH_OCL_AUTOLOAD"})
    assert done.stdout == "[2.0, 2.0, 2.0]\n", done.stderr


def test_switched_off():
    text = "import torch; print(hasattr(torch, 'ocl')); import torch_ocl; print(torch.ones(2, device='ocl').device)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout == "False\nocl:0\n", done.stderr


def test_printing(python):
    """A tensor is printed without a kernel for it that is missing being an error of the user's."""
    out = python("print(torch.ones(2, 2, device='ocl'))", OCL_FALLBACK="silent")
    assert "device='ocl:0'" in out
