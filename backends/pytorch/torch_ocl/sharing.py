"""Tensors that go from one process to another, as those of a DataLoader's workers do: by way of the host's memory. A buffer
of OpenCL's belongs to one process, so the other gets a copy, on the device of the same number."""

from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions


def _rebuilt(cls, host, device, requires_grad):
    from . import load

    load()  # which does nothing where PyTorch has done so
    t = host.to(device)
    if issubclass(cls, torch.nn.Parameter):
        return cls(t, requires_grad=requires_grad)
    return t.requires_grad_() if requires_grad else t


def _reduced(t):
    if t.device.type != "ocl":
        return reductions.reduce_tensor(t)
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue).")
    return _rebuilt, (type(t), t.detach().cpu(), str(t.device), t.requires_grad)


def _register():
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, _reduced)
