"""Tensors on several devices in one operator: PyTorch's own error, which names the operator and the argument."""

import pytest
import torch

F = torch.nn.functional
TEXT = "Expected all tensors to be on the same device"


def here(*shape):
    return torch.ones(shape)


def there(*shape):
    return torch.ones(shape, device="ocl")


CASES = {
    "add": lambda: there(3) + here(3),
    "add, the other way": lambda: here(3) + there(3),
    "mul_": lambda: there(3).mul_(here(3)),
    "where": lambda: torch.where(there(3) > 0, here(3), there(3)),
    "addcmul": lambda: torch.addcmul(there(3), here(3), there(3)),
    "mm": lambda: there(2, 3) @ here(3, 2),
    "mm, the other way": lambda: here(2, 3) @ there(3, 2),
    "bmm": lambda: torch.bmm(there(1, 2, 3), here(1, 3, 2)),
    "addmm": lambda: torch.addmm(here(2, 2), there(2, 2), there(2, 2)),
    "linear": lambda: F.linear(there(2, 3), here(4, 3)),
    "linear's bias": lambda: F.linear(there(2, 3), there(4, 3), here(4)),
    "dot": lambda: torch.dot(there(3), here(3)),
    "conv2d": lambda: F.conv2d(there(1, 2, 5, 5), here(3, 2, 3, 3)),
    "conv2d of the CPU's": lambda: F.conv2d(here(1, 2, 5, 5), there(3, 2, 3, 3)),
    "conv2d's bias": lambda: F.conv2d(there(1, 2, 5, 5), there(3, 2, 3, 3), here(3)),
    "conv_transpose1d": lambda: F.conv_transpose1d(here(1, 2, 5), there(2, 3, 3)),
    "batch_norm": lambda: F.batch_norm(there(2, 3, 4), here(3), there(3)),
    "layer_norm": lambda: F.layer_norm(there(2, 3), (3,), here(3)),
    "group_norm": lambda: F.group_norm(there(2, 4, 3), 2, here(4), there(4)),
    "embedding": lambda: F.embedding(torch.zeros(2, dtype=torch.long), there(3, 2)),
    "index_select": lambda: there(3, 2).index_select(0, torch.zeros(2, dtype=torch.long)),
    "gather": lambda: there(3, 2).gather(0, torch.zeros(1, 2, dtype=torch.long)),
    "scatter": lambda: there(3, 2).scatter(0, torch.zeros(1, 2, dtype=torch.long), 1.0),
    "cross_entropy": lambda: F.cross_entropy(there(2, 3), torch.zeros(2, dtype=torch.long)),
    "nll_loss's weight": lambda: F.nll_loss(there(2, 3), torch.zeros(2, dtype=torch.long, device="ocl"), here(3)),
    "mse_loss": lambda: F.mse_loss(there(3), here(3)),
    "cat": lambda: torch.cat([there(2), here(2)]),
    "stack": lambda: torch.stack([there(2), here(2)]),
    "masked_select": lambda: there(3).masked_select(here(3) > 0),
    "prelu": lambda: F.prelu(there(2, 3), here(3)),
    "cdist": lambda: torch.cdist(there(2, 3), here(2, 3)),
    "searchsorted": lambda: torch.searchsorted(there(3), here(2)),
    "grid_sample": lambda: F.grid_sample(there(1, 1, 3, 3), here(1, 2, 2, 2), align_corners=False),
    "mm of complex numbers": lambda: torch.mm(there(2, 2).to(torch.complex64), here(2, 2).to(torch.complex64)),
    "add of complex numbers": lambda: there(2).to(torch.complex64) + here(2).to(torch.complex64),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name, fallback_allowed):
    with pytest.raises((RuntimeError, ValueError), match=TEXT):
        CASES[name]()


def test_operator_and_argument_are_named():
    with pytest.raises(RuntimeError, match=r"got mat2 is on cpu, different from other tensors on ocl:0 .*aten::mm"):
        there(2, 3) @ here(3, 2)
    with pytest.raises(RuntimeError, match=r"got weight is on cpu.*convolution"):
        F.conv2d(there(1, 2, 5, 5), here(3, 2, 3, 3))


def test_numbers_and_indices_of_the_cpu_are_fine():
    x, number = there(2, 3), torch.tensor(2.0)
    assert (x + number).sum().item() == 18 and (number * x).sum().item() == 12
    assert torch.where(x > 0, number, x).sum().item() == 12
    assert x[torch.tensor([1, 0])].shape == (2, 3) and x[torch.tensor([True, False])].shape == (1, 3)
    x[torch.tensor([0])] = number
    assert x.sum().item() == 9
    torch._foreach_mul_([x], number)
    torch._foreach_copy_([x], [torch.zeros(2, 3)])
    assert not x.any()
