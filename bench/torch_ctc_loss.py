"""CTC loss as PyTorch has it, for bench/compare; its own implementation, not cuDNN's, which gives no log-probabilities' gradient."""
import torch
import torch.nn.functional as F

from check import CLOSE, close
from operands import WAITS, shape_of, tensor, whole
from torch_loss import closure


def composite(fields):
    return WAITS


def prepare(fields, device, dtype):
    times, batch, count = shape_of(fields)
    labels = int(fields.get("labels", 30))
    x = torch.log_softmax(tensor("x", fields, device, dtype), 2)
    target = whole("labels", [batch, labels], device, count - 1) + 1
    lengths = [torch.full([batch], n, device=device) for n in (times, labels)]
    run = closure(fields, lambda x: F.ctc_loss(x, target, *lengths), x)
    # Gradients are exponentials of sums of all steps' logarithms, thousands, whose last bit in single precision is 1e-4.
    return run, close(at_least=1e-3) if fields.get("direction") == "backward" else CLOSE
