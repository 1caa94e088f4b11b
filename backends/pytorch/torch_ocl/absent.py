"""The module torch.ocl where the device could not be loaded: who asks learns that it is not there, and why. PyTorch
itself knows no device of that name then."""

import torch_ocl


def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def __getattr__(name):
    raise AttributeError(f"torch.ocl.{name}: there is no ocl device: {torch_ocl.why_not()}")
