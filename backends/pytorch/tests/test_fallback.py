"""What has no kernel: counted, warned of, or an error."""

import pytest
import torch

WITHOUT_KERNEL = torch.special.bessel_j0


def test_error():
    torch.ocl.reset_fallbacks()
    with pytest.raises(NotImplementedError, match="special_bessel_j0.* OCL_FALLBACK=error"):
        WITHOUT_KERNEL(torch.ones(3, device="ocl"))
    assert list(torch.ocl.fallbacks().values()) == [1]  # the refusal is counted


def test_count(fallback_allowed):
    x = torch.rand(3)
    for _ in range(3):
        y = WITHOUT_KERNEL(x.to("ocl"))
    assert y.device.type == "ocl" and torch.equal(y.cpu(), WITHOUT_KERNEL(x))
    assert torch.ocl.fallbacks() == {"aten::special_bessel_j0.out": 3}
    assert "3  aten::special_bessel_j0.out" in str(torch.ocl.fallbacks())
    torch.ocl.reset_fallbacks()
    assert torch.ocl.fallbacks() == {} and "no operator" in str(torch.ocl.fallbacks())


def test_warning_comes_once(python):
    out = python(
        "import warnings\n"
        "warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "  for _ in range(3): torch.special.bessel_j0(torch.ones(3, device='ocl'))\n"
        "print([str(w.message) for w in seen if 'ocl' in str(w.message)])",
        OCL_FALLBACK="warn",
    )
    assert out.count("runs on the CPU") == 1


def test_unknown_mode():
    with pytest.raises(ValueError, match="not warn, error or silent"):
        torch.ocl.set_fallback_mode("loud")
    assert torch.ocl.set_fallback_mode("error") == "error"


def test_in_place_and_out(fallback_allowed):
    x = torch.rand(3, 4)
    y = x.to("ocl")
    y.cumsum_(1)
    assert torch.allclose(y.cpu(), x.cumsum(1))
    out = torch.empty(0, device="ocl")
    torch.cumsum(x.to("ocl"), 0, out=out)
    assert torch.allclose(out.cpu(), x.cumsum(0))


def test_complex_numbers_without_a_kernel_go_to_the_cpu(fallback_allowed):
    x = torch.randn(4, dtype=torch.complex64)
    y = x.to("ocl")
    assert torch.equal(torch.asin(y).cpu(), torch.asin(x))
    assert torch.equal(torch.fft.fft(y).cpu(), torch.fft.fft(x))
    assert set(torch.ocl.fallbacks()) == {"aten::asin.out", "aten::_fft_c2c"}


def test_a_view_by_way_of_the_cpu_is_an_error(fallback_allowed):
    """It would be a copy, whose writes are lost."""
    library = torch.library.Library("ocl_test", "DEF")
    library.define("first(Tensor(a) x) -> Tensor(a)")
    library.impl("first", lambda x: x[:1], "CPU")
    with pytest.raises(RuntimeError, match="view"):
        torch.ops.ocl_test.first(torch.ones(3, device="ocl"))


def test_a_network_trains(fallback_allowed):
    """All that is missing comes from the CPU: the result is right, if slow."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    x, t = torch.randn(32, 8), torch.randint(0, 2, (32,))
    losses = {}
    for device in ("cpu", "ocl"):
        m = __import__("copy").deepcopy(model).to(device)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9)
        losses[device] = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(m(x.to(device)), t.to(device))
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["ocl"] == pytest.approx(losses["cpu"], rel=1e-4) and losses["ocl"][-1] < losses["ocl"][0]
