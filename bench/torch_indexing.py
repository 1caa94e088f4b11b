"""Indexing as PyTorch does it, for bench/compare: see measure_indexing.cpp."""
import torch
import torch.nn.functional as F

from check import CLOSE, expecting
from operands import uniform, whole


def prepare(fields, device, dtype):
    f = fields["f"]
    rows, columns, count = (int(fields[name]) for name in ("rows", "columns", "count"))
    pairs, each = f == "index" or f.startswith("index_put"), f == "gather" or f.startswith("scatter")
    table = uniform("table", [rows, columns], device, dtype)
    dense = uniform("dense", [count] if pairs else [count, columns], device, dtype)
    index = whole("index", [count, columns] if each else [count], device, rows)
    column = whole("column", [count], device, columns)
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
    # Of several writers of a place the last one wins; PyTorch on a GPU leaves it open.
    old = table.clone() if f in ("scatter", "index_write", "index_put") else None

    def last_wins():
        places = (index * columns + column if pairs else index * columns + torch.arange(columns, device=device) if each
                  else index[:, None] * columns + torch.arange(columns, device=device)).reshape(-1)
        last = torch.full([rows * columns], -1, device=device)
        last.scatter_reduce_(0, places, torch.arange(places.numel(), device=device), "amax")
        return [torch.where(last < 0, old.reshape(-1), dense.reshape(-1)[last.clamp(min=0)])]

    run = {
        "scatter": lambda: table.scatter_(0, index, dense),
        "scatter_sum": lambda: table.scatter_add_(0, index, dense),
        "scatter_max": lambda: table.scatter_reduce_(0, index, dense, "amax"),
        "scatter_mean": lambda: table.scatter_reduce_(0, index, dense, "mean"),
        "index_write": lambda: table.index_copy_(0, index, dense),
        "index_write_sum": lambda: table.index_add_(0, index, dense),
        "index_put": lambda: table.index_put_((index, column), dense),
        "index_put_sum": lambda: table.index_put_((index, column), dense, accumulate=True),
    }[f]
    return run, CLOSE if old is None else expecting(last_wins, "the last writers' values")
