"""Copies of every dtype and form of strides: to the device, from it, on it."""

import pytest
import torch

NUMBERS = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16,
           torch.int32, torch.int64, torch.bool]
OTHERS = [torch.complex64, torch.complex128, torch.complex32, torch.uint16, torch.uint32, torch.uint64,
          torch.float8_e4m3fn, torch.float8_e5m2]


def bits(shape, dtype):
    """Memory of any bits, NaNs among them."""
    size = torch.empty(0, dtype=dtype).element_size()
    count = torch.Size(shape).numel() * size
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


FORMS = {
    "dense": lambda t: t,
    "transposed": lambda t: t.transpose(0, 3),
    "permuted": lambda t: t.permute(2, 0, 3, 1),
    "sliced": lambda t: t[1:, ::2, :, 1::2],
    "offset": lambda t: t[2],
    "expanded": lambda t: t[:, :1].expand(-1, 4, -1, -1),
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "number": lambda t: t[1, 1, 1, 1],
    "empty": lambda t: t[:, 2:2],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", NUMBERS + OTHERS, ids=str)
def test_round_trip(dtype, form):
    host = bits((3, 4, 5, 6), dtype)
    device = host.to("ocl")
    assert device.stride() == host.stride()
    expected, view = FORMS[form](host), FORMS[form](device)
    assert same_bits(view.cpu(), expected)  # from the device
    assert same_bits(view.clone().cpu(), expected)  # on it, to dense
    target = torch.zeros(expected.shape, dtype=dtype).to("ocl")
    target.copy_(expected)  # to it, from any strides
    assert same_bits(target.cpu(), expected)
    if form not in ("expanded",):
        whole = torch.zeros((3, 4, 5, 6), dtype=dtype)
        there = whole.to("ocl")
        FORMS[form](whole).copy_(expected)
        FORMS[form](there).copy_(expected)  # to it, into strides
        assert same_bits(there.cpu(), whole)
        FORMS[form](there).copy_(view)  # on it, into strides
        assert same_bits(there.cpu(), whole)
        back = torch.zeros((3, 4, 5, 6), dtype=dtype)
        FORMS[form](back).copy_(view)  # from it, into strides
        assert same_bits(back, whole)


@pytest.mark.parametrize("to", NUMBERS, ids=str)
@pytest.mark.parametrize("of", NUMBERS, ids=str)
def test_casts(of, to):
    host = (torch.arange(60) % 23 - (0 if torch.uint8 in (of, to) else 11)).reshape(3, 4, 5).to(of)
    device = host.to("ocl")
    assert same_bits(device.to(to).cpu(), host.to(to))
    assert same_bits(device.cpu().to(to), host.to(to))
    target = torch.empty(host.shape, dtype=to, device="ocl")
    target.copy_(host)  # converted on the way there
    assert same_bits(target.cpu(), host.to(to))
    back = torch.empty(host.shape, dtype=to)
    back.copy_(device)  # and back
    assert same_bits(back, host.to(to))
    assert same_bits(device.permute(2, 0, 1)[:, ::2].to(to).cpu(), host.permute(2, 0, 1)[:, ::2].to(to))


def test_casts_round_to_even():
    host = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 1e-8, 3.4e38, float("nan"), float("inf")])
    for dtype in (torch.float16, torch.bfloat16):
        assert same_bits(host.to("ocl").to(dtype).cpu().isnan(), host.to(dtype).isnan())
        got, expected = host.to("ocl").to(dtype).cpu(), host.to(dtype)
        assert torch.equal(got.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_whole_numbers_are_exact():
    host = torch.tensor([2**53 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)])
    assert same_bits(host.to("ocl").clone().cpu(), host)
    for i, value in enumerate(host.tolist()):
        assert host.to("ocl")[i].item() == value
        assert torch.full((3,), value, device="ocl").cpu().tolist() == [value] * 3


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_sizes_0_and_none(shape):
    host = torch.ones(shape)
    assert torch.equal(host.to("ocl").cpu(), host)
    assert torch.equal(host.to("ocl").to(torch.int32).cpu(), host.int())


def test_many_dimensions():
    host = torch.randn((2,) * 12)
    order = (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11)
    device = host.to("ocl")
    assert torch.equal(device.permute(order).contiguous().cpu(), host.permute(order))
    assert torch.equal(device.permute(order).half().cpu(), host.permute(order).half())
    assert torch.equal(device.permute(order).cpu(), host.permute(order))


def test_conjugates_and_negatives():
    host = torch.randn(4, 5, dtype=torch.complex64)
    device = host.to("ocl")
    assert torch.equal(device.conj().cpu(), host.conj())
    assert torch.equal(device.t().conj().cpu(), host.t().conj())
    assert torch.equal(host.conj().to("ocl").cpu(), host.conj())
    assert torch.equal(device.conj().resolve_conj().cpu(), host.conj())
    assert torch.equal(device.imag.cpu(), host.imag)
    assert torch.equal(device.conj().imag.cpu(), host.conj().imag)  # a negative view
    assert torch.equal(device.conj().imag.resolve_neg().cpu(), host.conj().imag)
    target = torch.zeros_like(device)
    target.conj().copy_(device)
    assert torch.equal(target.cpu(), host.conj())
    assert device.conj()[1, 2].item() == host.conj()[1, 2].item()


def test_broadcast():
    x = torch.zeros(3, 4, device="ocl")
    x.copy_(torch.arange(4.0))
    assert torch.equal(x.cpu(), torch.arange(4.0).expand(3, 4))
    x.copy_(torch.arange(3.0).to("ocl")[:, None])
    assert torch.equal(x.cpu(), torch.arange(3.0)[:, None].expand(3, 4))


def test_overlap_is_refused():
    x = torch.arange(10.0).to("ocl")
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:1].expand(4).fill_(1)


@pytest.mark.parametrize("dtype", NUMBERS + OTHERS[:4], ids=str)
def test_fill_and_item(dtype):
    for value in (0, 1, 3):
        x = torch.empty(3, 4, dtype=dtype, device="ocl")
        x.t()[1:, ::2].fill_(0)
        x.fill_(value)
        expected = torch.full((3, 4), value, dtype=dtype)
        assert same_bits(x.cpu(), expected)
        assert x[1, 2].item() == expected[1, 2].item()
    assert same_bits(x.zero_().cpu(), torch.zeros(3, 4, dtype=dtype))
    assert same_bits(torch.ones(5, dtype=dtype, device="ocl").cpu(), torch.ones(5, dtype=dtype))
    x.fill_(torch.tensor(1, dtype=dtype))
    assert same_bits(x.cpu(), torch.ones(3, 4, dtype=dtype))
    x[0].fill_(x[1, 1])


def test_layout_is_kept():
    host = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    device = host.to("ocl")
    assert device.is_contiguous(memory_format=torch.channels_last)
    assert device.half().is_contiguous(memory_format=torch.channels_last)
    assert device.cpu().is_contiguous(memory_format=torch.channels_last)
    assert torch.empty_like(device).is_contiguous(memory_format=torch.channels_last)
