"""CTC loss as PyTorch has it, for bench/compare; its own implementation, not cuDNN's, which gives no log-probabilities' gradient."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor
from torch_loss import closure


def prepare(fields, device, dtype):
    times, batch, count = shape_of(fields)
    labels = int(fields.get("labels", 30))
    x = torch.log_softmax(tensor(fields, device, dtype), 2)
    target = torch.randint(1, count, [batch, labels], device=device)
    lengths = [torch.full([batch], n, device=device) for n in (times, labels)]
    return closure(fields, lambda x: F.ctc_loss(x, target, *lengths), x)
