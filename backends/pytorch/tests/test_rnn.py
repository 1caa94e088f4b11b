"""Recurrent networks and their cells against the CPU: outputs, states, gradients of inputs and weights."""

import copy

import pytest
import torch
from torch import nn

from compare import assert_same, tensors_of

torch.manual_seed(0)


def flat(result):
    return [t for part in result for t in (tensors_of(part) if not isinstance(part, torch.Tensor) else [part])]


def check(layer, *arguments, tolerance=2e-5, strides=False):
    """The layer and its copy on the device; arguments are tensors or tuples of them."""
    away = copy.deepcopy(layer).to("ocl")

    def leaf(value, device):
        if isinstance(value, tuple):
            return tuple(leaf(v, device) for v in value)
        return value.detach().to(device).requires_grad_(value.is_floating_point())

    here, there = [leaf(a, "cpu") for a in arguments], [leaf(a, "ocl") for a in arguments]
    expected, got = layer(*here), away(*there)
    expected, got = ([r] if isinstance(r, torch.Tensor) else flat(r) for r in (expected, got))
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        assert_same(g, e, tolerance, strides=strides)
    torch.manual_seed(1)
    seeds = [torch.randint(-2, 3, e.shape).to(e.dtype) for e in expected]
    torch.autograd.backward(expected, seeds)
    torch.autograd.backward(got, [s.to("ocl") for s in seeds])
    pairs = list(zip(flat([h if isinstance(h, tuple) else (h,) for h in here]),
                     flat([t if isinstance(t, tuple) else (t,) for t in there])))
    for a, b in pairs + list(zip(layer.parameters(), away.parameters())):
        size = max(1.0, a.grad.abs().max().item())
        assert_same(b.grad / size, a.grad / size, 4 * tolerance, strides=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell, bias, dtype):
    layer = cell(7, 5, bias=bias).to(dtype)
    state = torch.randn(3, 5).to(dtype)
    if cell is nn.LSTMCell:
        state = (state, torch.randn(5, 3).t().to(dtype))
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-12}.get(dtype, 8 * torch.finfo(dtype).eps)
    check(layer, torch.randn(3, 14)[:, ::2].to(dtype), state, tolerance=tolerance)


@pytest.mark.parametrize("output", ["hy", "cy"])
def test_one_output_of_a_cell(output):
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(4, 6)

        def forward(self, x, c):
            return self.cell(x, (c, c))[0 if output == "hy" else 1]

    check(One(), torch.randn(2, 4), torch.randn(2, 6))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("more", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}],
                         ids=["plain", "deep", "no bias"])
def test_networks(kind, more):
    check(kind(6, 5, **more), torch.randn(4, 3, 6))


def test_projection():
    check(nn.LSTM(6, 5, proj_size=3), torch.randn(4, 2, 6))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind):
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = kind(4, 5)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]))
            return nn.utils.rnn.pad_packed_sequence(self.net(packed)[0])[0]

    check(Packed(), torch.randn(5, 3, 4))


def test_no_batch():
    cell, gru = nn.LSTMCell(4, 3).to("ocl"), nn.GRUCell(4, 3).to("ocl")
    x = torch.empty(0, 4, device="ocl")
    assert cell(x)[0].shape == gru(x).shape == (0, 3)


def test_gradient_of_a_gradient():
    layer = nn.LSTMCell(3, 4)
    away = copy.deepcopy(layer).to("ocl")
    results = []
    for net, device in ((layer, "cpu"), (away, "ocl")):
        x = torch.linspace(-1, 1, 6).view(2, 3).to(device).requires_grad_()
        first, = torch.autograd.grad(net(x)[0].square().sum(), x, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), x)[0])
    assert_same(results[1], results[0], 1e-5)
