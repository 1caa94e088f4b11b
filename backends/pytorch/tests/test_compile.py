"""torch.compile with the backends that need no code generator, torch.export: as eager on the CPU, nothing runs there."""

import io

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

F = nn.functional


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                         nn.Flatten(), nn.Linear(128, 10), nn.LayerNorm(10))


def train(device, compiled=None, dynamic=None, sizes=(4, 7, 5)):
    """Losses, weights, and how often the network was compiled."""
    torch._dynamo.reset()
    frames = CompileCounterWithBackend(compiled) if compiled else None
    model = network().to(device)
    step = torch.compile(model, backend=frames, dynamic=dynamic, fullgraph=True) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for n in sizes:
        x = torch.randn(n, 3, 8, 8, generator=generator).to(device)
        y = torch.randint(0, 10, (n,), generator=generator).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(step(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return torch.stack(losses).cpu(), weights.cpu(), frames.frame_count if frames else 0


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training(backend, dynamic):
    torch.ocl.reset_fallbacks()
    losses, weights, compiled = train("ocl", backend, dynamic)
    expected, expected_weights, _ = train("cpu")
    _, _, on_cpu = train("cpu", backend, dynamic)
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-3, atol=1e-4)
    assert compiled == on_cpu  # each of the three sizes if not dynamic, else fewer
    assert (compiled == 3) == (dynamic is False)
    assert torch.ocl.fallbacks() == {}


def test_optimizer_and_scalars_compile():
    """A whole step, with a number read in the middle of it."""

    def step(w, m, g, lr):
        m = m * 0.9 + g
        if m.abs().max().item() > 1e6:  # a break of the graph
            return w, m
        return w - lr * m, m

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager")
    w, m, g = torch.randn(3, 33)
    got = compiled(w.to("ocl"), m.to("ocl"), g.to("ocl"), 0.1)
    for a, b in zip(got, step(w, m, g, 0.1)):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu(), b)


def test_device_constants_and_mutation_in_a_graph():
    def function(x):
        mask = torch.ones(x.shape[0], x.shape[0], device=x.device).tril()
        x.mul_(2)
        return torch.where(mask.bool(), x @ x.t(), torch.tensor(-1.0, device="ocl" if x.is_ocl else "cpu"))

    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        x = torch.randn(5, 3)
        y = x.to("ocl")
        got = torch.compile(function, backend=backend)(y)
        torch.testing.assert_close(got.cpu(), function(x))
        assert torch.equal(y.cpu(), x)


def test_the_default_backend_says_what_works():
    function = torch.compile(lambda x: x.relu() + 1)
    layer = torch.compile(nn.LayerNorm(3).to("ocl"))
    for compiled in (function, layer):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="inductor, generates no code for ocl. These work: .*aot_eager.*eager"):
            compiled(torch.ones(2, 3, device="ocl"))


def test_inductor_is_imported_by_who_compiles(python):
    out = python("import sys\ntorch.ones(1, device='ocl')\nprint('torch._inductor' in sys.modules)\n"
                 "assert not hasattr(torch.ocl, 'no_such_thing')")
    assert out == "False\n"


def test_export():
    torch.ocl.reset_fallbacks()
    model = network().to("ocl").eval()
    reference = network().eval()
    x = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        program = torch.export.export(model, (x.to("ocl"),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert all(p.device == torch.device("ocl:0") for p in loaded.state_dict.values())
    x = torch.randn(9, 3, 8, 8)
    with torch.no_grad():
        expected = reference(x)
        for run in (program.module(), loaded.module(), loaded.run_decompositions().module()):
            y = run(x.to("ocl"))
            assert y.device.type == "ocl"
            torch.testing.assert_close(y.cpu(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="65|64"):
        loaded.module()(torch.randn(65, 3, 8, 8).to("ocl"))
    assert torch.ocl.fallbacks() == {}


def test_export_for_training():
    model = network().to("ocl").train()
    x = torch.randn(4, 3, 8, 8).to("ocl")
    exported = torch.export.export(model, (x,)).module()
    exported(x).square().mean().backward()
    model(x).square().mean().backward()
    for a, b in zip(exported.parameters(), model.parameters()):
        torch.testing.assert_close(a.grad.cpu(), b.grad.cpu(), rtol=1e-4, atol=1e-6)
