"""import torch never fails."""

import os
import subprocess
import sys


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
        "print(torch.ones(3).sum().item())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "OCL_ICD_VENDORS": "/nonexistent", "OCL_ICD_FILENAMES": ""},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3.0\n" and done.stderr == ""


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


def test_switched_off():
    text = "import torch; print(hasattr(torch, 'ocl')); import torch_ocl; print(torch.ones(2, device='ocl').device)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout == "False\nocl:0\n", done.stderr


def test_printing(python):
    """A tensor is printed without a kernel for it that is missing being an error of the user's."""
    out = python("print(torch.ones(2, 2, device='ocl'))", OCL_FALLBACK="silent")
    assert "device='ocl:0'" in out
