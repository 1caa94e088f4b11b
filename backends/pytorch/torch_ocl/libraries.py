"""Libraries that look for devices by lists of their own, and what makes them find this one: see LIBRARIES.md."""

import os


def _register(other_accelerator):
    """accelerate, and so transformers' Trainer, take the device that ACCELERATE_TORCH_DEVICE names. Set where nobody has
    set it, and PyTorch has no accelerator beside this one."""
    if "ACCELERATE_TORCH_DEVICE" not in os.environ and other_accelerator() is None:
        os.environ["ACCELERATE_TORCH_DEVICE"] = "ocl"
