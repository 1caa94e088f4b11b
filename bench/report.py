"""What bench/compare tells of its cases: their names, how their ratios are distributed, tables and pictures.

A case is a line of a shape file; a row is what was measured of it.
"""
import math

# A picture of more cases has no room for their names.
MOST_BARS = 60
# Two ratios of a case that differ by more are pointed out.
APART = 1.2
# What a row says beside its case.
NOTES = {"reference_is": "reference", "compared_by": "compared by"}
GREEN, RED = "#2a7f62", "#c8553d"  # dlprim is faster, or slower


class Conv:
    """A convolution's fields, with what may be left out."""

    def __init__(self, fields):
        def numbers(name, default):
            return [int(value) for value in fields[name].split("x")] if name in fields else [default] * len(self.size)

        self.direction = fields.get("direction", "forward")
        self.n, self.c, self.k, self.groups = (int(fields.get(name, 1)) for name in ("n", "c", "k", "groups"))
        self.size = [int(value) for value in fields["size"].split("x")]
        self.window, self.stride = numbers("window", 1), numbers("stride", 1)
        self.pad, self.dilation = numbers("pad", 0), numbers("dilation", 1)
        self.output = [
            (size + 2 * pad - dilation * (window - 1) - 1) // stride + 1 for size, window, stride, pad, dilation in
            zip(self.size, self.window, self.stride, self.pad, self.dilation)]


def op_of(case):
    return case.split()[0]


def fields_of(case):
    return dict(word.split("=", 1) for word in case.split()[1:])


def flops(case):
    fields = fields_of(case)
    if op_of(case) == "conv":
        conv = Conv(fields)
        return 2 * conv.n * conv.k * math.prod(conv.output) * conv.c // conv.groups * math.prod(conv.window)
    return 2 * math.prod(int(fields[name]) for name in ("m", "n", "k")) * max(1, int(fields.get("batch", 0)))


def copy_rates(rows):
    """Bytes a millisecond of the plain copies among the rows, of each dtype."""
    return {fields_of(r["case"]).get("dtype", "f32"): r["bytes"] / r["dlprim_ms"] for r in rows
            if op_of(r["case"]) == "elementwise" and fields_of(r["case"])["f"] == "copy"
            and fields_of(r["case"]).get("layout", "nchw") == "nchw"}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def quantile(values, share):
    """Of sorted values; between two of them in proportion."""
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def distribution(rows):
    ratios = sorted(r["ratio"] for r in rows)
    return {
        "cases": len(ratios), "geometric_mean": geometric_mean(ratios), "worst": ratios[0],
        **{f"quantile_{percent}": quantile(ratios, percent / 100) for percent in (5, 25, 50, 75, 95)},
        "best": ratios[-1],
        **{f"share_from_{bound}": sum(ratio >= bound for ratio in ratios) / len(ratios) for bound in (0.95, 1)}}


def groups_by(name, rows):
    """The rows of each value of a field, if there are several."""
    groups = {}
    for r in rows:
        groups.setdefault(fields_of(r["case"]).get(name), []).append(r)
    return {f"{name}={value}": group for value, group in groups.items()} if len(groups) > 1 else {}


def summary_of(rows, varied):
    groups = {"all": rows}
    for name in dict.fromkeys(["direction", *varied]):
        groups.update(groups_by(name, rows))
    summary = {label: distribution(group) for label, group in groups.items()}
    on_device = [{"ratio": r["device_ratio"]} for r in rows if r.get("device_ratio")]
    return summary | ({"all, on the device": distribution(on_device)} if on_device else {})


def summary_table(summary):
    table = "| ratios | cases | geometric mean | worst | 5 % | 25 % | 50 % | 75 % | 95 % | best | >= 0.95 | >= 1 |\n"
    table += "|---" * 12 + "|\n"
    for label, numbers in summary.items():
        cells = [f"{100 * number:.0f} %" if name.startswith("share") else f"{number:.2f}"
                 for name, number in numbers.items() if name != "cases"]
        table += f"| {label} | {numbers['cases']} | " + " | ".join(cells) + " |\n"
    return table


def short(case):
    """A case without what says nothing: "512x512x64 nt f32", "forward 64 of 3x224x224 to 64, 7x7 /2 pad 3 f32"."""
    f = fields_of(case)
    if op_of(case) == "conv":
        def unless(default, word, numbers):
            if all(value == default for value in numbers):
                return ""
            return f" {word}" + "x".join(map(str, numbers if len(set(numbers)) > 1 else numbers[:1]))

        conv = Conv(f)
        text = (f"{conv.direction} {conv.n} of {conv.c}x{f['size']} to {conv.k}, {f['window']}" +
                unless(1, "/", conv.stride) + unless(0, "pad ", conv.pad) + unless(1, "dilation ", conv.dilation) +
                unless(1, "groups ", [conv.groups]) + f" {f.get('dtype', 'f32')}")
    elif op_of(case) != "gemm":
        words = {name: value for name, value in f.items() if value != "nchw"}
        plain = [words.pop(name) for name in ("f", "direction", "size", "dtype", "layout") if name in words]
        op = [op_of(case)] if op_of(case) != "elementwise" else []
        return " ".join(op + plain + [f"{name}={value}" for name, value in words.items()])
    else:
        text = f"{f['m']}x{f['n']}x{f['k']} {f.get('a', 'n')}{f.get('b', 'n')} {f.get('dtype', 'f32')}"
        if "batch" in f:
            text = f"{f['batch']} of {text}"
    return text + (f" {f['math']}" if "math" in f else "") + (" nhwc" if f.get("layout") == "nhwc" else "")


def apart(row):
    """Whether the ratios on the wall and on the device differ by more than APART."""
    device = row.get("device_ratio")
    return bool(device) and max(row["ratio"] / device, device / row["ratio"]) > APART


def head_of(title, about):
    """What was measured where, and how to read the table."""
    rows = about["cases"]
    ratios = [r["ratio"] for r in rows]
    text = (f"# {title}: dlprim against {about['reference']}, {about['date']}\n\n{about['device']} ({about['platform']}, "
            f"driver {about['driver']}), commit {about['commit']}, threads: {about['threads']}.\nBoth computed each case from "
            f"the same numbers, and their results were compared before it was timed: {len(about['failed'])} failed.\n\nA "
            f"ratio above 1: dlprim is faster. Geometric mean **{geometric_mean(ratios):.2f}**, worst {min(ratios):.2f}, "
            f"{len(rows)} cases")
    device = [r["device_ratio"] for r in rows if r.get("device_ratio")]
    if not device:
        return text + ".\n"
    return text + (
        f"; by device time **{geometric_mean(device):.2f}**, worst {min(device):.2f}.\n`ratio` is of times on the wall, with "
        f"Python, allocation and launches;\n`on the device` of the kernels alone: ours by OpenCL's events, the reference's as "
        f"one CUDA graph or, marked e, between two events around runs in a row.\nIn {sum(map(apart, rows))} cases, marked **!**, "
        f"the two ratios differ by a factor above {APART}.\n")


def write_markdown(path, title, about):
    rows = about["cases"]
    by_device = any(r.get("device_ratio") for r in rows)
    with open(path, "w") as out:
        out.write(head_of(title, about) + f"\n{summary_table(about['summary'])}\n")
        moves = any(r["bytes"] for r in rows)
        rates = copy_rates(rows) if moves else {}
        computes = any(not r["bytes"] for r in rows)
        headings = ["dlprim, TFLOP/s"] * computes + ["dlprim, GB/s"] * moves + ["of a copy"] * bool(rates)
        headings = ["case", "engine", "dlprim, ms", "reference, ms", *headings, "ratio"]
        headings += ["dlprim on the device, ms", "reference on the device, ms", "on the device"] * by_device
        out.write("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|\n")
        for r in rows:
            rate = r["bytes"] / r["dlprim_ms"]
            copied = rates.get(fields_of(r["case"]).get("dtype", "f32"))
            done = [f"{flops(r['case']) * 1e-9 / r['dlprim_ms']:.2f}" if not r["bytes"] else "-"] * computes
            done += [f"{rate * 1e-6:.0f}" if r["bytes"] else "-"] * moves
            done += [f"{rate / copied:.2f}" if copied and r["bytes"] else "-"] * bool(rates)
            notes = "".join(f" ({label}: {r[name]})" for name, label in NOTES.items() if name in r)
            cells = [short(r["case"]) + notes, r["engine"], f"{r['dlprim_ms']:.4f}",
                     f"{r['reference_ms']:.4f}", *done, f"{r['ratio']:.2f}"]
            if by_device and r.get("device_ratio"):
                cells += [f"{r['dlprim_device_ms']:.4f}",
                          f"{r['reference_device_ms']:.4f}" + " e" * (r["reference_device_by"] == "events"),
                          f"{r['device_ratio']:.2f}" + " **!**" * apart(r)]
            elif by_device:
                cells += ["-"] * 3
            out.write("| " + " | ".join(cells) + " |\n")
        for heading, group, why in (("Failed: the results differ", about["failed"], "failed"),
                                    ("Left out", about["left_out"], "why")):
            if group:
                out.write(f"\n## {heading}\n\n| case | engine | why |\n|---|---|---|\n")
                for r in group:
                    out.write(f"| {short(r['case'])} | {r.get('engine', '-')} | {r[why]} |\n")


def write_svg(path, title, rows):
    width, height, body = (bars if len(rows) <= MOST_BARS else curves)(rows)
    with open(path, "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
                  f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
                  f'<text x="10" y="20" font-size="14">{title}</text>\n'
                  f'<text x="10" y="36" fill="#666">reference time / dlprim time</text>\n{body}</svg>\n')


def bars(rows):
    """A bar for each ratio, with a line at 1."""
    left = max(260, 12 + 6 * max(len(short(r["case"])) for r in rows))
    height, scale = 18, 420 / max(1.0, max(r["ratio"] for r in rows))
    total, body = 50 + height * len(rows), ""
    for i, r in enumerate(rows):
        y = 46 + height * i
        body += (f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{short(r["case"])}</text>'
                 f'<rect x="{left}" y="{y}" width="{r["ratio"] * scale:.1f}" height="{height - 5}" '
                 f'fill="{GREEN if r["ratio"] >= 1 else RED}"/>'
                 f'<text x="{left + r["ratio"] * scale + 4:.1f}" y="{y + 11}">{r["ratio"]:.2f}</text>\n')
    body += (f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="42" y2="{total}" stroke="#333" '
             f'stroke-dasharray="3,3"/>\n')
    return left + 500, total + 10, body


def curves(rows):
    """The sorted ratios of each direction side by side, on one logarithmic axis with lines at powers of 2."""
    left, top, height, gap = 50, 80, 320, 20
    planes, body = groups_by("direction", rows) or {"all": rows}, ""
    width = 900 / len(planes) - gap
    logs = [math.log2(r["ratio"]) for r in rows]
    low, high = min(-1, math.floor(min(logs))), max(1, math.ceil(max(logs)))

    def y_of(log):
        return top + height * (high - log) / (high - low)

    for power in range(low, high + 1):
        body += f'<text x="{left - 6}" y="{y_of(power) + 4:.1f}" text-anchor="end">{2.0**power:g}</text>\n'
    for i, (label, group) in enumerate(planes.items()):
        x, numbers = left + i * (width + gap), distribution(group)
        body += (f'<text x="{x}" y="58" font-size="12">{label}, {len(group)} cases</text>'
                 f'<text x="{x}" y="73" fill="#666">geometric mean {numbers["geometric_mean"]:.2f}, median '
                 f'{numbers["quantile_50"]:.2f}, 1 or more: {100 * numbers["share_from_1"]:.0f} %</text>\n')
        for power in range(low, high + 1):
            body += (f'<line x1="{x}" x2="{x + width}" y1="{y_of(power):.1f}" y2="{y_of(power):.1f}" '
                     f'stroke="{"#ddd" if power else "#333"}"/>\n')
        for percent in (25, 50, 75):
            body += (f'<text x="{x + width * percent / 100}" y="{top + height + 16}" text-anchor="middle" '
                     f'fill="#666">{percent} %</text>\n')
        for rank, r in enumerate(sorted(group, key=lambda r: r["ratio"])):
            body += (f'<circle cx="{x + width * (rank + 0.5) / len(group):.1f}" cy="{y_of(math.log2(r["ratio"])):.1f}" '
                     f'r="2" fill="{GREEN if r["ratio"] >= 1 else RED}">'
                     f'<title>{short(r["case"])}: {r["ratio"]:.2f}</title></circle>\n')
    body += f'<text x="{left}" y="{top + height + 34}" fill="#666">share of the cases, worst first</text>\n'
    return left + 900 + 10, top + height + 46, body
