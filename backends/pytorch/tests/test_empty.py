"""Results of tensors without elements, computed beside memory that is full of NaN."""

import copy
import io
import pickle

import pytest
import torch

from compare import same

F = torch.nn.functional
NONE = [0, 2]


@pytest.fixture(autouse=True)
def garbage():
    """Freed memory that holds neither 0 nor 1."""
    blocks = [torch.full((n,), 1e30, device="ocl") for n in (1, 1, 2, 4, 64, 1000)]
    del blocks


REDUCTIONS = {
    "norm": lambda x: x.norm(), "norm 1": lambda x: x.norm(1), "norm 3": lambda x: x.norm(3), "norm 0": lambda x: x.norm(0),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=0), "sum": lambda x: x.sum(), "sum 0": lambda x: x.sum(0),
    "mean": lambda x: x.mean(), "prod": lambda x: x.prod(), "prod 0": lambda x: x.prod(0), "all": lambda x: (x > 0).all(),
    "any": lambda x: (x > 0).any(), "all 0": lambda x: (x > 0).all(0), "any 0": lambda x: (x > 0).any(0),
    "nansum": lambda x: x.nansum(), "var": lambda x: x.var(), "std 0": lambda x: x.std(0),
    "logsumexp": lambda x: x.logsumexp(0), "count_nonzero": lambda x: x.count_nonzero(),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(0,), (0, 3)], ids=str)
def test_reductions(name, shape):
    x = torch.zeros(shape)
    if name == "vector_norm" and shape == (0,):
        x = torch.zeros(0, 1)
    same(REDUCTIONS[name], x, grad=False)


def test_clipping_with_an_empty_parameter():
    for foreach in (True, False):
        a, b = torch.ones(3, device="ocl", requires_grad=True), torch.ones(0, device="ocl", requires_grad=True)
        a.grad, b.grad = torch.full_like(a, 4.0), torch.zeros_like(b)
        norm = torch.nn.utils.clip_grad_norm_([a, b], 1.0, foreach=foreach)
        assert abs(norm.item() - 48 ** 0.5) < 1e-5
        torch.testing.assert_close(a.grad.cpu(), torch.full((3,), 1 / 3 ** 0.5), rtol=1e-5, atol=0)


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_losses_of_an_empty_batch(reduction):
    target = torch.zeros(0, dtype=torch.long)
    same(lambda x, t: F.cross_entropy(x, t, reduction=reduction), torch.zeros(0, 3), target)
    same(lambda x, t: F.nll_loss(x, t, reduction=reduction), torch.zeros(0, 3), target)
    same(lambda x, t: F.nll_loss(x, t, torch.ones(3, device=x.device), reduction=reduction), torch.zeros(0, 3), target)
    same(lambda x, t: F.cross_entropy(x, t, reduction=reduction), torch.zeros(0, 3, 2, 2), torch.zeros(0, 2, 2).long())
    same(lambda x, y: F.mse_loss(x, y, reduction=reduction), torch.zeros(0, 3), torch.zeros(0, 3))


def test_products_of_nothing():
    same(torch.dot, torch.zeros(0), torch.zeros(0))
    same(torch.mm, torch.zeros(2, 0), torch.zeros(0, 3))
    same(torch.mv, torch.zeros(2, 0), torch.zeros(0))
    same(torch.addmv, torch.ones(2), torch.zeros(2, 0), torch.zeros(0))
    same(F.linear, torch.zeros(0, 3), torch.ones(2, 3), torch.ones(2))


def test_errors_of_nothing():
    for x, f in ((torch.zeros(0), lambda x: x.kthvalue(1)), (torch.zeros(2, 0), lambda x: x.median(1)),
                 (torch.zeros(0), lambda x: x.max()), (torch.zeros(0), lambda x: x.argmax())):
        with pytest.raises((RuntimeError, IndexError)) as expected:
            f(x)
        with pytest.raises(expected.type):
            f(x.to("ocl"))


@pytest.mark.parametrize("shape", [(3, 2), (0,), ()], ids=str)
def test_copies_through_pickle(shape):
    x = torch.randn(shape).to("ocl")
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert y.device == x.device and torch.equal(y.cpu(), x.cpu())
    view = torch.arange(6.0, device="ocl").view(2, 3).t()[1:]
    again = pickle.loads(pickle.dumps(view))
    assert torch.equal(again.cpu(), view.cpu()) and again.stride() == view.stride()
    parameter = pickle.loads(pickle.dumps(torch.nn.Parameter(x)))
    assert isinstance(parameter, torch.nn.Parameter) and torch.equal(parameter.detach().cpu(), x.cpu())
    module = pickle.loads(pickle.dumps(torch.nn.Linear(2, 3).to("ocl")))
    assert module.weight.device.type == "ocl"


@pytest.mark.parametrize("new", [True, False])
def test_saved_files(new):
    x, file = torch.randn(4).to("ocl"), io.BytesIO()
    torch.save({"x": x, "part": x[1:]}, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    y = torch.load(file)
    assert torch.equal(y["x"].cpu(), x.cpu()) and torch.equal(y["part"].cpu(), x[1:].cpu())
