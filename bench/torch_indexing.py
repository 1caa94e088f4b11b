"""Indexing as PyTorch does it, for bench/compare: see measure_indexing.cpp."""
import torch
import torch.nn.functional as F


def prepare(fields, device, dtype):
    f = fields["f"]
    rows, columns, count = (int(fields[name]) for name in ("rows", "columns", "count"))
    pairs, each = f == "index" or f.startswith("index_put"), f == "gather" or f.startswith("scatter")
    table = torch.rand(rows, columns, device=device).to(dtype)
    dense = torch.rand([count] if pairs else [count, columns], device=device).to(dtype)
    index = torch.randint(rows, [count, columns] if each else [count], device=device)
    column = torch.randint(columns, [count], device=device)
    read = {
        "embedding": lambda table: F.embedding(index, table),
        "index_select": lambda table: table.index_select(0, index),
        "gather": lambda table: table.gather(0, index),
        "index": lambda table: table[index, column],
    }.get(f)
    if read and fields.get("direction", "forward") == "backward":
        y = read(table.requires_grad_())
        return lambda: torch.autograd.grad(y, table, dense, retain_graph=True)
    if read:
        return lambda: read(table)
    return {
        "scatter": lambda: table.scatter_(0, index, dense),
        "scatter_sum": lambda: table.scatter_add_(0, index, dense),
        "scatter_max": lambda: table.scatter_reduce_(0, index, dense, "amax"),
        "scatter_mean": lambda: table.scatter_reduce_(0, index, dense, "mean"),
        "index_write": lambda: table.index_copy_(0, index, dense),
        "index_write_sum": lambda: table.index_add_(0, index, dense),
        "index_put": lambda: table.index_put_((index, column), dense),
        "index_put_sum": lambda: table.index_put_((index, column), dense, accumulate=True),
    }[f]
