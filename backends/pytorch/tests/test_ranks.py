"""Tensors of more than 8 dimensions: on the device where they fold into 8, else on the CPU, counted."""

import pytest
import torch

NINE = (2, 1, 2, 3, 1, 2, 1, 2, 2)
TEN = (2,) * 10


def data(shape, seed=0):
    torch.manual_seed(seed)
    return torch.randint(-4, 5, shape).float()


def crossed(t):
    """A view whose dimensions do not fold."""
    return t.permute(*range(0, t.dim(), 2), *range(1, t.dim(), 2))


FOLDING = {
    "add": lambda x: x + 1, "mul": lambda x: x * x, "relu": lambda x: torch.relu(x), "sum": lambda x: x.sum(),
    "clone": lambda x: x.clone(), "zero_": lambda x: x.clone().zero_(), "to": lambda x: x.to(torch.float16).float(),
    "compare": lambda x: (x > 0).float(),
}
OTHERS = {
    "sum of a dimension": lambda x: x.sum(3), "sum of two": lambda x: x.sum((0, 5)), "softmax": lambda x: x.softmax(-1),
    "cat": lambda x: torch.cat([x, x], 2), "flip": lambda x: x.flip(0, 3), "argmax": lambda x: x.argmax(4).float(),
    "cumsum": lambda x: x.cumsum(1), "index_select": lambda x: x.index_select(2, torch.tensor([0, 0], device=x.device)),
    "index": lambda x: x[:, torch.tensor([0], device=x.device)], "mean": lambda x: x.mean(-1), "where": lambda x: torch.where(x > 0, x, 0.5),
    "fill": lambda x: crossed(x.clone()).fill_(3), "sort": lambda x: x.sort(-1)[0], "norm": lambda x: torch.linalg.vector_norm(x, dim=0),
    "broadcast": lambda x: x + x[..., :1], "outer": lambda x: x.select(0, 0).unsqueeze(0) * x, "tril": lambda x: x.tril(),
    "max": lambda x: x.max(2)[0], "matmul": lambda x: x @ x.transpose(-1, -2), "nonzero": lambda x: x.nonzero().float(),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0), "roll": lambda x: x.roll(1, 2), "repeat": lambda x: x.repeat((1,) * x.dim()),
}


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.parametrize("shape", [NINE, TEN], ids=str)
def test_on_the_device(name, shape):
    x = data(shape)
    assert torch.equal(FOLDING[name](x.to("ocl")).cpu(), FOLDING[name](x))


@pytest.mark.parametrize("name", [*FOLDING, *OTHERS])
@pytest.mark.parametrize("place", ["contiguous", "crossed"])
@pytest.mark.parametrize("shape", [NINE, TEN], ids=str)
def test_with_the_cpu(name, place, shape, fallback_allowed):
    f = {**FOLDING, **OTHERS}[name]
    x = data(shape)
    y = x.to("ocl")
    if place == "crossed":
        x, y = crossed(x), crossed(y)
    expected, got = f(x), f(y)
    assert got.device.type == "ocl"
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-6, atol=1e-6)


def test_gradients(fallback_allowed):
    x = crossed(data(NINE)).requires_grad_()
    y = x.detach().to("ocl").requires_grad_()
    (x.softmax(2) * x).sum((1, 4)).square().sum().backward()
    (y.softmax(2) * y).sum((1, 4)).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-5, atol=1e-5)


def test_in_place_operators_change_their_tensor(fallback_allowed):
    x = data(TEN)
    y = x.to("ocl")
    crossed(y).add_(crossed(y).roll(1, 0)).clamp_(-2, 2)
    crossed(x).add_(crossed(x).roll(1, 0)).clamp_(-2, 2)
    assert torch.equal(y.cpu(), x)


def test_an_error_where_the_cpu_is_forbidden():
    x = crossed(data(TEN).to("ocl"))
    with pytest.raises(NotImplementedError, match="no kernel on ocl for these arguments"):
        x.softmax(3)
