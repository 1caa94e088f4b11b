"""Several threads, and processes that were forked."""

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
