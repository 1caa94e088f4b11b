"""Programs: what is compiled before it is asked for, and what a second process need not compile."""

import re

START = """
import os, time
log = os.open(os.environ["LOG_FILE"], os.O_WRONLY | os.O_CREAT)
os.dup2(log, 2)
os.environ["DLPRIM_LOG"] = "1"
def quiet():  # nothing was compiled for two seconds
    size = -1
    while size != (size := os.fstat(log).st_size):
        time.sleep(2)
net = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.Flatten(2), torch.nn.Linear(144, 40)).to("ocl")
x = torch.randn(4, 8, 12, 12, device="ocl")
"""


def built(log):
    return re.findall(r"^dlprim: build.* program=(\w+)", log.read_text(), re.MULTILINE)


def test_programs_of_gradients_are_compiled_from_the_forward_pass_on(python, tmp_path):
    text = START + """
with torch.set_grad_enabled(os.environ["GRADIENTS"] == "1"):
    y = net(x.requires_grad_(os.environ["GRADIENTS"] == "1"))
quiet()
if y.requires_grad:
    g = torch.ones_like(y)
    torch.ocl.synchronize()
    os.write(log, b"dlprim: build program=BACKWARD\\n")
    y.backward(g)
    torch.ocl.synchronize()
    quiet()  # PyTorch's own thread may still hold objects of Python, which must not be gone before it
"""
    names = {}
    for gradients in "01":
        log = tmp_path / gradients
        python(text, LOG_FILE=str(log), GRADIENTS=gradients, DLPRIM_CACHE_DIR=str(tmp_path / f"cache{gradients}"))
        names[gradients] = built(log)
    start = names["1"].index("BACKWARD")
    assert len(names["1"][:start]) > len(names["0"])
    assert not [name for name in names["1"][start:] if "conv" in name or "gemm" in name]


def test_a_second_process_compiles_nothing(python, tmp_path):
    text = START + """
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
for _ in range(2):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x).mean(2), torch.zeros(4, dtype=torch.int64, device="ocl")).backward()
    optimizer.step()
torch.ocl.synchronize()
quiet()
"""
    for log in (tmp_path / "first", tmp_path / "second"):
        python(text, LOG_FILE=str(log), DLPRIM_CACHE_DIR=str(tmp_path / "cache"))
    assert len(built(tmp_path / "first")) > 5
    assert built(tmp_path / "second") == []
    assert "dlprim: load program=" in (tmp_path / "second").read_text()
