"""PyTorch on any OpenCL device: device="ocl".

PyTorch itself imports this package (entry point torch.backends) and calls _autoload(). What cannot be loaded is no
error: PyTorch goes on without the device, and why_not() says what was missing. Beside a GPU that PyTorch itself uses,
load() loads the device, or TORCH_OCL_AUTOLOAD=1.
"""

import ctypes
import glob
import os
import subprocess
import sys

__version__ = "0.1.0"

_NOT_YET = _reason = "not loaded yet"


def why_not():
    """Why device="ocl" is not there; None if it is."""
    return _reason


def _opencl_platforms():
    """How many OpenCL platforms there are. Another process asks, where there is a program for it: a loader that has
    several platforms to sort makes drivers start threads, and no child of a fork has those."""
    try:
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dlprim-compiler")
        asked = subprocess.run([program, "platforms"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, timeout=60)
        return int(asked.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pass
    for name in ("libOpenCL.so.1", "libOpenCL.so", "OpenCL.dll"):
        try:
            count = ctypes.c_uint(0)
            error = ctypes.CDLL(name).clGetPlatformIDs(0, None, ctypes.byref(count))
            return count.value if error == 0 else 0
        except (OSError, AttributeError):
            pass
    return 0


def _load():
    import torch

    if _opencl_platforms() == 0:
        return "there is no OpenCL platform on this machine (or no OpenCL loader)"
    minor = ".".join(torch.__version__.split(".")[:2])
    folder = os.path.dirname(os.path.abspath(__file__))
    library = os.path.join(folder, f"_glue_{minor}.so")
    if not os.path.exists(library):
        built = sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, "_glue_*.so")))
        return f"torch-ocl is not built for torch {minor}, only: {', '.join(built) or 'none'}"
    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "ocl"):
        return f"another package has taken PyTorch's only open place: {torch._C._get_privateuse1_backend_name()}"
    torch.ops.load_library(library)

    from . import absent, backends, libraries, ocl, sharing

    if getattr(torch, "ocl", None) is absent:
        del torch.ocl
    ocl._register()
    backends._register()
    sharing._register()
    libraries._register(_other_accelerator)
    return None


def _other_accelerator():
    """The accelerator that PyTorch has already, "cuda" as a rule. It knows one at a time (pytorch/pytorch#161129): with
    this device loaded the other one computes, but its backward() fails inside PyTorch."""
    import torch

    known = torch.accelerator.current_accelerator()
    if known is None or known.type == "ocl" or getattr(torch, known.type).device_count() == 0:
        return None
    return known.type


def _set_reason(reason):
    """`reason` computes why the device is not there. What it raises is one: an error here would break `import torch`."""
    global _reason
    try:
        _reason = reason()
    except Exception as e:
        _reason = f"{type(e).__name__}: {e}"
    if _reason is not None:
        _say_absent()


def load():
    """Loads the device if it is not there yet. Raises RuntimeError with the reason if that cannot be."""
    if _reason is not None:
        _set_reason(_load)
    if _reason is not None:
        raise RuntimeError(f"torch_ocl: {_reason}")


def _autoload():
    def reason():
        other = None if os.environ.get("TORCH_OCL_AUTOLOAD") == "1" else _other_accelerator()
        if other is None:
            return _load()
        return f"PyTorch has {other} devices; torch_ocl.load() loads ocl beside them, and {other}'s backward() fails then"

    if _reason == _NOT_YET:
        _set_reason(reason)


def _say_absent():
    """torch.ocl.is_available() is then False, not an error."""
    import torch

    from . import absent

    if not hasattr(torch, "ocl"):
        torch.ocl = sys.modules["torch.ocl"] = absent


if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
    _set_reason(_load)  # who switched that off and imports this wants it nevertheless
