"""The elementwise functions of docs/elementwise.md as PyTorch has them, for bench/compare."""
import os
import re

import torch
import torch.nn.functional as F

from check import CLOSE, close
from operands import shape_of, tensor

# Those that are called otherwise there.
OTHERS = {
    "relu6": F.relu6, "leaky_relu": F.leaky_relu, "threshold": lambda x: F.threshold(x, 0, 0), "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink, "logsigmoid": F.logsigmoid, "elu": F.elu, "selu": F.selu, "celu": F.celu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "softplus": F.softplus,
    "softsign": F.softsign, "clip": lambda x: torch.clamp(x, -float("inf"), float("inf")),
    "addcmul": torch.addcmul, "addcdiv": torch.addcdiv, "power": lambda x: torch.pow(x, 2),
    "where": lambda condition, a, b: torch.where(condition != 0, a, b),
    "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
    "greater_equal": torch.ge, "is_nan": torch.isnan, "is_inf": torch.isinf, "is_finite": torch.isfinite,
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "copy": torch.clone, "prelu": F.prelu,
}


def listed():
    """What the list says of each function, read from its page: the inputs' names, whether the result is a truth, and the
    inputs that have a gradient."""
    functions = {"copy": (["x"], False, ["x"])}
    page = os.path.join(os.path.dirname(__file__), "..", "docs", "elementwise.md")
    for line in open(page):
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| `"):
            inputs = cells[2].split(";")[0].strip().split(", ")
            alone = len(inputs) == 1 and cells[5].strip() != "-"
            with_gradient = [x for x in inputs if alone or re.search(rf"(^| |>){x}: `", cells[5])]
            functions[cells[1].strip(" `")] = inputs, cells[4].strip().endswith("0 or 1"), with_gradient
    return functions


LISTED = listed()


def function(name):
    return OTHERS.get(name) or getattr(torch, name)


def operands(name, fields, device, dtype):
    """The inputs' names, those with a gradient, the inputs, the function and the result's shape."""
    shape, (names, _, with_gradient) = shape_of(fields), LISTED[name]
    if name == "glu":  # halves of one tensor
        return ["x"], ["x"], [tensor("x", fields, device, dtype)], lambda x: F.glu(x, 1), [shape[0], shape[1] // 2, *shape[2:]]
    shapes = {"slope": [shape[1]]} if name == "prelu" else {}
    inputs = [tensor(word, {"layout": "nchw"} if word in shapes else fields, device, dtype, shapes.get(word)) for word in names]
    return names, with_gradient, inputs, function(name), shape


def composite(fields):
    return {"where": "!= 0, then where"}.get(fields["f"])


def prepare(fields, device, dtype):
    names, with_gradient, inputs, f, shape = operands(fields["f"], fields, device, dtype)
    # PyTorch has a sixth in single precision there, also for f64.
    compare = close(at_least=1e-7) if fields["f"] in ("hardsigmoid", "hardswish") else CLOSE
    if fields.get("direction", "forward") == "forward":
        return lambda: f(*inputs), compare
    wanted = [x.requires_grad_() for word, x in zip(names, inputs) if word in with_gradient]
    y, dy = f(*inputs), tensor("dy", fields, device, dtype, shape)
    return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True), compare
