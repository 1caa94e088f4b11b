"""Indexing as PyTorch does it, for bench/compare: see measure_indexing.cpp."""
import torch
import torch.nn.functional as F


def prepare(fields, device, dtype):
    f = fields["f"]
    rows, columns, count = (int(fields[name]) for name in ("rows", "columns", "count"))
    table = torch.rand(rows, columns, device=device).to(dtype)
    dense = torch.rand(count, columns, device=device).to(dtype)
    each = f in ("gather", "scatter_add", "scatter_max")
    index = torch.randint(rows, (count, columns) if each else (count,), device=device)
    if f == "embedding_backward":
        w = table.requires_grad_()
        y = F.embedding(index, w)
        return lambda: torch.autograd.grad(y, w, dense, retain_graph=True)
    return {
        "embedding": lambda: F.embedding(index, table),
        "index_select": lambda: table.index_select(0, index),
        "index_add": lambda: table.index_add_(0, index, dense),
        "gather": lambda: table.gather(0, index),
        "scatter_add": lambda: table.scatter_add_(0, index, dense),
        "scatter_max": lambda: table.scatter_reduce_(0, index, dense, "amax"),
    }[f]
