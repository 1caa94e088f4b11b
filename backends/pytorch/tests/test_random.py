"""Random numbers: their distribution, the generator's state, dropout."""

import pytest
import torch

from compare import FLOATS, same

F = torch.nn.functional


def test_seed_and_state():
    torch.manual_seed(3)
    a, state = torch.rand(100, device="ocl"), torch.ocl.get_rng_state()
    b = torch.rand(100, device="ocl")
    assert not torch.equal(a.cpu(), b.cpu())
    torch.ocl.set_rng_state(state)
    assert torch.equal(torch.rand(100, device="ocl").cpu(), b.cpu())
    torch.manual_seed(3)
    assert torch.equal(torch.rand(100, device="ocl").cpu(), a.cpu())
    generator = torch.Generator("ocl").manual_seed(3)
    assert torch.equal(torch.rand(100, device="ocl", generator=generator).cpu(), a.cpu())
    with pytest.raises(RuntimeError):
        torch.rand(3, device="ocl", generator=torch.Generator())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_distributions(dtype):
    torch.manual_seed(0)
    n = 40_000
    u = torch.empty(n, device="ocl", dtype=dtype).uniform_(-1, 3).cpu().double()
    assert u.min() >= -1 and u.max() <= 3 and abs(u.mean() - 1) < 0.03 and abs(u.var() - 16 / 12) < 0.04
    g = torch.empty(n, device="ocl", dtype=dtype).normal_(2, 0.5).cpu().double()
    assert abs(g.mean() - 2) < 0.02 and abs(g.std() - 0.5) < 0.02
    e = torch.empty(n, device="ocl", dtype=dtype).exponential_(2).cpu().double()
    assert e.min() >= 0 and abs(e.mean() - 0.5) < 0.02
    b = torch.empty(n, device="ocl", dtype=dtype).bernoulli_(0.3).cpu().double()
    assert set(b.unique().tolist()) == {0, 1} and abs(b.mean() - 0.3) < 0.02


def test_other_distributions():
    torch.manual_seed(0)
    p = torch.tensor([0.0, 0.25, 1.0], device="ocl").repeat(10_000)
    b = torch.bernoulli(p).reshape(-1, 3).mean(0).cpu()
    assert b[0] == 0 and b[2] == 1 and abs(b[1] - 0.25) < 0.03
    assert torch.empty(3, 4, device="ocl", dtype=torch.bool).bernoulli_(1).all()
    i = torch.randint(-5, 7, (10_000,), device="ocl")
    assert i.dtype == torch.int64 and i.min() == -5 and i.max() == 6
    assert torch.randint(2**62, (9,), device="ocl").max() < 2**62
    assert torch.empty(1000, dtype=torch.uint8, device="ocl").random_().max() > 200
    assert torch.empty(1000, device="ocl", dtype=torch.int32).random_(3).max() == 2
    n = torch.normal(torch.tensor([0.0, 100.0], device="ocl"), torch.tensor([1.0, 2.0], device="ocl"))
    assert n[1] > 50
    assert torch.randn(3, 5, device="ocl").t().contiguous().shape == (5, 3)
    assert torch.empty(9, 4, device="ocl").t().normal_().isfinite().all()
    assert torch.empty(9, device="ocl").geometric_(0.5).min() >= 1
    assert torch.empty(9, device="ocl").log_normal_().min() > 0
    torch.empty(9, device="ocl").cauchy_()


def test_permutation():
    torch.manual_seed(0)
    p = torch.randperm(1000, device="ocl")
    assert torch.equal(p.sort().values.cpu(), torch.arange(1000)) and not torch.equal(p.cpu(), torch.arange(1000))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout(dtype):
    torch.manual_seed(0)
    x = torch.full((200, 100), 3.0, device="ocl", dtype=dtype, requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = y != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    assert torch.equal(y.cpu() != 0, kept.cpu())
    torch.testing.assert_close(y[kept].cpu(), torch.full((int(kept.sum()),), 4.0, dtype=dtype))
    y.sum().backward()
    torch.testing.assert_close((x.grad != 0).cpu(), kept.cpu())
    assert torch.equal(F.dropout(x, 0.5, training=False).cpu(), x.cpu())
    assert (F.dropout(x, 1.0) == 0).all()
    assert torch.equal(F.dropout(x, 0.0).cpu(), x.cpu())


def test_initialisation():
    layer = torch.nn.Linear(30, 40, device="ocl")
    bound = 30**-0.5
    assert layer.weight.abs().max() <= bound and layer.weight.std() > bound / 3
    torch.nn.init.kaiming_normal_(layer.weight)
    torch.nn.init.trunc_normal_(layer.weight, std=0.02)
    same(lambda x: x * 2, torch.ones(3))


def test_gradient_of_dropout_of_integers():
    mask = torch.rand(5, 7) > 0.5
    for dtype in (torch.int64, torch.bool, torch.float32):
        dy = torch.randint(0, 2, (5, 7)).to(dtype)
        same(lambda dy: torch.ops.aten.native_dropout_backward(dy, mask.to(dy.device), 1.5), dy, grad=False)
