"""Storages, their addresses, statistics, and what happens when memory ends."""

import copy
import gc
import io

import pytest
import torch


def test_addresses():
    a, b = torch.zeros(100, device="ocl"), torch.zeros(100, device="ocl")
    assert a.data_ptr() != b.data_ptr() != 0
    assert a[10:].data_ptr() == a.data_ptr() + 40
    assert a[10:].untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
    assert torch.zeros(0, device="ocl").data_ptr() == 0
    assert a.view(torch.int32).data_ptr() == a.data_ptr()


def test_addresses_of_the_living_do_not_overlap():
    held = []
    for round in range(4):
        held = held[::2] + [torch.empty(1 + 37 * i * (round + 1), dtype=torch.uint8, device="ocl") for i in range(100)]
        ranges = sorted((t.data_ptr(), t.data_ptr() + t.numel()) for t in held)
        assert all(end <= begin for (_, end), (begin, _) in zip(ranges, ranges[1:]))


def test_a_host_access_faults(python):
    """At once, instead of reading what is not there."""
    python(
        "import ctypes\nx = torch.zeros(100, device='ocl')\nctypes.string_at(x.data_ptr(), 4)",
        code=-11,
    )


def test_statistics():
    gc.collect()
    before = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    x = torch.empty(1000, 1000, device="ocl")
    assert torch.ocl.memory_allocated() == before + 4_000_000
    del x
    assert torch.ocl.memory_allocated() == before
    assert torch.ocl.max_memory_allocated() == before + 4_000_000
    assert torch.ocl.memory_reserved() >= before
    torch.ocl.empty_cache()
    free, total = torch.ocl.mem_get_info()
    assert 0 < free <= total
    torch.accelerator.empty_cache()
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()


def test_out_of_memory_names_sizes_and_work_goes_on():
    total = torch.ocl.get_device_properties(0).total_memory
    x = torch.ones(10, device="ocl")
    with pytest.raises(torch.OutOfMemoryError, match=r"ocl:0 .* cannot allocate \d+ bytes: .*asked for \d+ bytes"):
        torch.empty(total * 4, dtype=torch.uint8, device="ocl")
    assert x.cpu().sum() == 10


def test_a_limit_is_kept(python):
    out = python(
        "torch.ocl.set_memory_limit(64 << 20)\n"
        "kept = torch.zeros(8 << 20, device='ocl')\n"
        "try:\n"
        "  more = torch.zeros(16 << 20, device='ocl')\n"
        "except torch.OutOfMemoryError as e: print(e)\n"
        "print(torch.zeros(1 << 20, device='ocl').cpu().sum().item())\n"
    )
    assert "cannot allocate 67108864 bytes" in out and "tensors hold 33554432 bytes" in out
    assert out.rstrip().endswith("0.0")


def test_beyond_the_largest_allocation():
    """Both sizes are named, also where the device has as much memory in all."""
    largest = torch.ocl.get_device_properties(0).max_allocation
    with pytest.raises(torch.OutOfMemoryError, match=f"cannot allocate {largest + 1024} bytes: .*at most {largest}"):
        torch.empty(largest + 1024, dtype=torch.uint8, device="ocl")
    with pytest.raises(torch.OutOfMemoryError, match=f"at most {largest}"):
        torch.ones(8, device="ocl").expand(largest, 8).contiguous()


def test_training_goes_on_with_smaller_batches_after_out_of_memory(python):
    """Whether the forward or the backward pass or the optimizer had no room."""
    out = python(
        "from torch import nn\n"
        "def steps(model, optimizer, sizes):\n"
        "  device = next(model.parameters()).device\n"
        "  for n in sizes:\n"
        "    x = torch.linspace(-1, 1, n * 64).view(n, 64).to(device)\n"
        "    optimizer.zero_grad(set_to_none=True)\n"
        "    loss = model(x).square().mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "  return loss.item()\n"
        "def make(device):\n"
        "  torch.manual_seed(0)\n"
        "  model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8)).to(device)\n"
        "  return model, torch.optim.AdamW(model.parameters(), 1e-2)\n"
        "on, cpu = make('ocl'), make('cpu')\n"
        "steps(*on, [8, 8]); steps(*cpu, [8, 8])\n"
        "torch.ocl.set_memory_limit(48 << 20)\n"
        "kept = None\n"
        "failed = 0\n"
        "for n in (1 << 17, 1 << 15, 1 << 14, 12000, 9000):\n"
        "  try: steps(*on, [n]); print('room for', n); break\n"
        "  except torch.OutOfMemoryError as e:\n"
        "    assert 'cannot allocate' in str(e) and 'of at most 50331648' in str(e), e\n"
        "    failed += 1\n"
        "  for p in on[0].parameters(): p.grad = None\n"
        "  torch.ocl.synchronize()\n"
        "assert failed >= 2, failed\n"
        "torch.ocl.empty_cache()\n"
        "on, cpu = make('ocl'), make('cpu')\n"
        "a, b = steps(*on, [8, 16, 8]), steps(*cpu, [8, 16, 8])\n"
        "assert abs(a - b) < 1e-4 * abs(b) + 1e-6, (a, b)\n"
        "assert torch.ocl.memory_stats()['num_ooms'] == failed\n"
        "print('ok')\n"
    )
    assert out.rstrip().endswith("ok")


def test_a_failed_step_leaves_weights_and_memory(python):
    out = python(
        "model = torch.nn.Linear(64, 64).to('ocl')\n"
        "x = torch.ones(4, 64, device='ocl')\n"
        "model(x).sum().backward()\n"
        "weights = [p.detach().cpu() for p in model.parameters()]\n"
        "for p in model.parameters(): p.grad = None\n"
        "torch.ocl.set_memory_limit(32 << 20)\n"
        "before = torch.ocl.memory_allocated()\n"
        "for _ in range(20):\n"
        "  try: model(torch.ones(1 << 17, 64, device='ocl')).sum().backward(); raise SystemExit('room')\n"
        "  except torch.OutOfMemoryError: pass\n"
        "  assert torch.ocl.memory_allocated() == before\n"
        "assert all(torch.equal(p.cpu(), w) for p, w in zip(model.parameters(), weights))\n"
        "assert model(x).isfinite().all().item()\n"
        "print(torch.ocl.memory_reserved() <= 32 << 20)\n"
    )
    assert out == "True\n"


def test_resize():
    x = torch.arange(6, dtype=torch.float32).to("ocl")
    address = x.data_ptr()
    x.resize_(2, 2)
    assert x.data_ptr() == address and x.cpu().tolist() == [[0, 1], [2, 3]]
    x.resize_(1000)
    assert x[:6].cpu().tolist() == [0, 1, 2, 3, 4, 5]
    x.untyped_storage().resize_(8)
    assert x.untyped_storage().nbytes() == 8
    y = torch.zeros(4, device="ocl")
    y.resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_set():
    x = torch.arange(12, dtype=torch.float32).to("ocl")
    y = torch.empty(0, device="ocl")
    y.set_(x)
    assert y.data_ptr() == x.data_ptr() and y.numel() == 12
    y.set_(x.untyped_storage(), 2, (2, 3), (5, 1))
    assert y.cpu().tolist() == [[2, 3, 4], [7, 8, 9]]
    y.set_()
    assert y.numel() == 0 and y.device.type == "ocl"
    y.set_(x.untyped_storage())
    assert y.numel() == 12
    y.data = x[3:5]
    assert y.cpu().tolist() == [3, 4]


def test_views_share_memory():
    x = torch.zeros(4, 6, device="ocl")
    x.view(24)[5] = 1
    x.t()[1, 3] = 2
    x.unfold(1, 2, 2)[2, 1, 0] = 3
    x.as_strided((2,), (7,), 14)[1] = 4
    x.select(0, 1).fill_(5)
    expected = torch.zeros(4, 6)
    expected.view(24)[5] = 1
    expected.t()[1, 3] = 2
    expected.unfold(1, 2, 2)[2, 1, 0] = 3
    expected.as_strided((2,), (7,), 14)[1] = 4
    expected.select(0, 1).fill_(5)
    assert torch.equal(x.cpu(), expected)
    z = torch.zeros(3, dtype=torch.complex64, device="ocl")
    torch.view_as_real(z)[1, 1] = 2
    assert z.cpu().tolist() == [0, 2j, 0]
    assert torch.view_as_complex(torch.view_as_real(z)).data_ptr() == z.data_ptr()


def test_save_and_load():
    x = torch.arange(10, dtype=torch.float32).to("ocl")
    file = io.BytesIO()
    torch.save({"x": x, "view": x[2:4]}, file)
    for map_location, device in ((None, "ocl"), ("cpu", "cpu"), ("ocl:0", "ocl"), (torch.device("ocl"), "ocl")):
        file.seek(0)
        back = torch.load(file, map_location=map_location)
        assert back["x"].device.type == device
        assert torch.equal(back["x"].cpu(), x.cpu())
        back["x"][2:3].fill_(50)
        assert back["view"][0].item() == 50
    file = io.BytesIO()
    torch.save(torch.arange(3), file)
    file.seek(0)
    assert torch.load(file, map_location="ocl").device == torch.device("ocl:0")


def test_deepcopy_clone_and_parameters():
    x = torch.arange(10, dtype=torch.float32).to("ocl")
    for y in (copy.deepcopy(x), x.clone(), torch.nn.Parameter(x).detach().clone()):
        assert y.data_ptr() != x.data_ptr() and torch.equal(y.cpu(), x.cpu())
    assert x.untyped_storage().clone().device.type == "ocl"
    module = torch.nn.Linear(3, 2)
    weight = module.weight
    expected = weight.detach().clone()
    module.to("ocl")
    assert module.weight is weight and weight.device.type == "ocl" and torch.equal(weight.cpu(), expected)
    again = copy.deepcopy(module)
    assert torch.equal(again.weight.cpu(), expected)
    module.load_state_dict(torch.nn.Linear(3, 2).state_dict())
    module.cpu()
    assert module.weight is weight and weight.device.type == "cpu"
