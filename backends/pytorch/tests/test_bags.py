"""Bags of embeddings, and distances between rows: against the CPU."""

import pytest
import torch

from compare import same

F = torch.nn.functional


def data(*shape, dtype=torch.float32, seed=0):
    torch.manual_seed(sum(shape) + seed)
    return torch.randn(shape).to(dtype)


INDICES = torch.tensor([3, 1, 4, 1, 5, 0, 2, 3, 3])
OFFSETS = torch.tensor([0, 2, 2, 5, 8])


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode, padding):
    def function(w, i, o, **more):
        return F.embedding_bag(i, w, o, mode=mode, padding_idx=padding, **more)

    same(function, data(6, 5), INDICES, OFFSETS, tolerance=1e-6)
    same(function, data(6, 5), INDICES.int(), OFFSETS.int(), tolerance=1e-6)
    same(lambda w, i, o: function(w, i, o, include_last_offset=True), data(6, 5), INDICES,
         torch.cat([OFFSETS, torch.tensor([9])]), tolerance=1e-6)
    same(function, data(6, 5), INDICES[:0], OFFSETS[:3] * 0)
    same(lambda w, i: F.embedding_bag(i, w, mode=mode), data(6, 5), INDICES.view(3, 3), tolerance=1e-6)
    same(function, data(6, 5, dtype=torch.bfloat16), INDICES, OFFSETS)


@pytest.mark.parametrize("padding", [None, 3])
def test_weights_of_samples(padding):
    same(lambda w, i, o, f: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f, padding_idx=padding),
         data(6, 5), INDICES, OFFSETS, data(9), tolerance=1e-5)


def test_gradients_by_frequency():
    """Against the plain gradients divided by counts: the CPU's own (of torch 2.13) takes other indices' counts."""
    table, seed = data(6, 5).to("ocl").requires_grad_(), data(5, 5, seed=2).to("ocl")
    plain, divided = (
        torch.autograd.grad(F.embedding_bag(INDICES.to("ocl"), table, OFFSETS.to("ocl"), mode="sum",
                                            scale_grad_by_freq=by_frequency), table, seed)[0]
        for by_frequency in (False, True))
    counts = INDICES.bincount(minlength=6).unsqueeze(1)
    torch.testing.assert_close(divided.cpu(), plain.cpu() / counts)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, float("inf")])
def test_distances(p):
    def function(a, b):
        return torch.cdist(a, b, p)

    x = data(4, 6)
    same(function, x, torch.cat([x[1:2], data(4, 6, seed=1)]), tolerance=2e-5, grad=p >= 1)
    same(function, data(2, 1, 4, 6), data(3, 5, 6), tolerance=2e-5)
    same(function, data(6, 4).t(), data(5, 12)[:, ::2], tolerance=2e-5)
    same(function, data(4, 6).double(), data(5, 6).double(), tolerance=1e-9)
    same(function, data(30, 6), data(40, 6), tolerance=1e-4)


def test_no_distances():
    same(torch.cdist, data(0, 6), data(5, 6))
    same(torch.cdist, data(4, 6), data(0, 6))
    same(torch.cdist, data(4, 0), data(5, 0))
