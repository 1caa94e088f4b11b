"""Several threads, and processes that were forked."""

import subprocess
import sys
import threading

import torch


def test_backward_runs_on_another_thread_with_its_stream():
    seen = []

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            seen.append((threading.get_ident(), torch.ocl.current_stream()))
            return dy * 2

    stream = torch.ocl.Stream()
    x = torch.ones(1000, device="ocl", requires_grad=True)
    with torch.ocl.stream(stream):
        y = Note.apply(x)
        y.backward(torch.ones(1000, device="ocl"))
    torch.ocl.synchronize()
    assert x.grad.cpu().eq(2).all()
    assert seen[0][0] != threading.get_ident() and seen[0][1] == stream


def test_main_and_backward_thread_use_one_stream():
    """The main thread goes on while backward runs on autograd's."""
    x = torch.ones(4096, device="ocl", requires_grad=True)
    stop = threading.Event()
    wrong = []

    def other():
        y = torch.zeros(777, device="ocl")
        n = 0
        while not stop.is_set():
            y = y + 1
            n += 1
            if n % 50 == 0 and y[-1].item() != n:
                wrong.append(n)
                return

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(30):
        y = x
        for _ in range(10):
            y = y * 2
        y.backward(torch.ones(4096, device="ocl"))
        if not x.grad.cpu().eq(1024).all():
            wrong.append("grad")
        x.grad = None
    stop.set()
    thread.join()
    assert not wrong


def test_threads_allocate_copy_and_let_go():
    wrong = []

    def work(seed):
        for i in range(60):
            host = torch.full((1000 + 37 * seed + i,), float(seed * 1000 + i))
            device = host.to("ocl")
            twice = (device + device).cpu()
            if not torch.equal(twice, host * 2):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_forked_child_gets_a_clear_error(python):
    out = python(
        "import os, sys\n"
        "x = torch.ones(3, device='ocl')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "  ok = torch.ocl._is_in_bad_fork()\n"
        "  try: torch.ones(2, device='ocl'); ok = False\n"
        "  except RuntimeError as e: ok = ok and 'spawn' in str(e)\n"
        "  try: x.cpu(); ok = False\n"
        "  except RuntimeError as e: ok = ok and 'spawn' in str(e)\n"
        "  del x\n"
        "  ok = ok and torch.ones(2).sum() == 2\n"
        "  os._exit(0 if ok else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), x.cpu().sum().item())\n"
    )
    assert out == "0 3.0\n"


def test_a_child_forked_before_the_first_use_works(python):
    """import torch asks OpenCL for no device."""
    out = python(
        "import os\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "  os._exit(0 if torch.ones(3, device='ocl').cpu().sum() == 3 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert out == "0\n"


def test_workers_of_a_data_loader(python):
    text = (
        "if __name__ == '__main__':\n"
        "  data = torch.utils.data.DataLoader(torch.arange(8.), batch_size=4, num_workers=2, pin_memory=True,"
        " multiprocessing_context='{}')\n"
        "  x = torch.ones(1, device='ocl')\n"
        "  print([b.to('ocl').cpu().tolist() for b in data])\n"
    )
    for method in ("fork", "spawn"):
        assert python(text.format(method)) == "[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]\n"


def test_a_forked_worker_that_uses_the_device_says_why_not(python):
    """The error reaches whoever reads from the loader; the device goes on."""
    out = python(
        "x = torch.ones(1, device='ocl')\n"
        "class Data(torch.utils.data.Dataset):\n"
        "  def __len__(self): return 4\n"
        "  def __getitem__(self, i): return torch.full((2,), float(i), device='ocl').cpu()\n"
        "loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context='fork')\n"
        "try: next(iter(loader)); raise SystemExit('no error')\n"
        "except RuntimeError as e: assert 'spawn' in str(e), e\n"
        "print(x.item())\n"
    )
    assert out == "1.0\n"


def test_workers_forked_again_and_again_leave_the_device_alone(python):
    """Each with tensors of the parent that it lets go, while the parent trains."""
    out = python(
        "data = torch.arange(64.).view(16, 4)\n"
        "model = torch.nn.Linear(4, 1).to('ocl')\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, shuffle=True,"
        " multiprocessing_context='fork')\n"
        "seen = 0\n"
        "for epoch in range(3):\n"
        "  for batch in loader:\n"
        "    optimizer.zero_grad(); loss = model(batch.to('ocl')).square().mean(); loss.backward(); optimizer.step()\n"
        "    seen += batch.sum().item()\n"
        "print(seen == 3 * data.sum().item(), loss.isfinite().item())\n"
    )
    assert out == "True True\n"


def test_spawned_processes_have_devices_of_their_own(tmp_path):
    """torch.multiprocessing.spawn, with the parent's device in use."""
    script = tmp_path / "spawned.py"
    script.write_text(
        "import torch, torch_ocl\n"
        "torch_ocl.load()\n"
        "def work(rank, results):\n"
        "  x = torch.full((100,), float(rank + 1), device='ocl')\n"
        "  results[rank] = (x @ x).cpu()\n"
        "if __name__ == '__main__':\n"
        "  x = torch.ones(3, device='ocl')\n"
        "  results = torch.zeros(2).share_memory_()\n"
        "  torch.multiprocessing.spawn(work, (results,), nprocs=2)\n"
        "  print(results.tolist(), x.sum().item())\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[100.0, 400.0] 3.0\n"


def test_a_program_may_end_with_backward(python):
    """Autograd's thread lets go of tensors when backward() has returned. On one core a third of such programs aborted."""
    text = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 1)
        return 2 * x
    @staticmethod
    def backward(ctx, g):
        return 2 * g + 0 * ctx.saved_tensors[0]
x = torch.ones(300, 300, device="ocl", requires_grad=True)
y = x
for _ in range(20):
    y = Twice.apply((y @ x).relu() * 1e-3)
y.sum().backward()
"""
    for _ in range(8):
        python(text)


def test_autograd_sleeps_after_the_wait():
    x = torch.ones(300, 300, device="ocl", requires_grad=True)
    (x @ x).relu().sum().backward()
    torch.ocl._wait_for_autograd()
    threads = torch.ocl._autograd_threads()
    assert threads and all(state == "S" for _, state, _, _ in threads)
    assert torch.ocl._autograd_threads() == threads
