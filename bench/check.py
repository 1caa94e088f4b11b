"""Whether dlprim and the reference computed the same: results of one run of each, from the same operands.

How they are compared is `CLOSE`, unless `prepare` of a torch_OP.py names another of the functions here beside what to
run. Each takes both sides' lists of results as flat PyTorch tensors on one device, and the case's dtype (of math=tf32 that),
and gives what is wrong, or None. One that leaves something open says in `.by` what it compares.
"""
import math

# Differences, in parts of the largest expected number. Sums of many numbers of f32 take these in another order.
TOLERANCE = {"f64": 1e-9, "f32": 3e-5, "tf32": 3e-3, "f16": 4e-3, "bf16": 3e-2}
# And the distance of neighbours among the smallest numbers, where gradients of a mean may lie.
STEP = {"f16": 2.0**-24}


def differences(ours, theirs, tolerance, step):
    """Of two results the places, as truths, where they differ. NaN equals NaN, infinity itself."""
    ours, theirs = ours.double(), theirs.double()
    finite = theirs.isfinite()
    largest = theirs[finite].abs().max().item() if finite.any() else 0.0
    same = (ours == theirs) | (ours.isnan() & theirs.isnan()) | ((ours - theirs).abs() <= max(tolerance * largest, step))
    return ~same


def counted(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(ours)} results, the reference has {len(theirs)}"
    for i, (mine, other) in enumerate(zip(ours, theirs)):
        if mine.numel() != other.numel():
            return f"result {i} has {mine.numel()} elements, the reference's {other.numel()}"
    return None


def close(share=0, at_least=0):
    """Close, but for a share of the elements: those at which rounding decides which way a jump goes. `at_least`: a tolerance
    that counts if it is larger than the usual one."""

    def compare(ours, theirs, mode):
        wrong = counted(ours, theirs)
        for i, (mine, other) in enumerate(zip(ours, theirs)):
            if wrong or not mine.numel():
                continue
            differ = differences(mine, other, max(TOLERANCE[mode], at_least), STEP.get(mode, 0))
            if not other.is_floating_point():
                differ = mine != other
            count = int(differ.sum())
            if count > share * mine.numel():
                at = int(differ.nonzero()[0])
                wrong = (f"result {i}: {count} of {mine.numel()} elements differ, the first at {at}: "
                         f"{mine[at].item():.9g}, the reference has {other[at].item():.9g}")
        return wrong

    if share:
        compare.by = f"all elements but a share of {share:g}"
    return compare


def close_sum(terms, double):
    """Of sums of so many products in single or double precision: a plain chain of roundings is off by sqrt(terms / 2) last
    bits of the results' root mean square."""
    return close(at_least=4 * 2.0**(-53 if double else -24) * math.sqrt(terms))


CLOSE = close()


def places_in(x, axis):
    """Values, and their places in x along an axis. Of equal values each place is right."""

    def compare(ours, theirs, mode):
        wrong = counted(ours, theirs) or CLOSE(ours[:1], theirs[:1], mode)
        if wrong:
            return wrong
        shape = list(x.shape)
        shape[axis] = ours[1].numel() // (x.numel() // x.shape[axis])
        found = x.detach().gather(axis, ours[1].reshape(shape).to(x.device)).reshape(-1)
        return CLOSE([ours[0]], [found], mode)

    compare.by = "values, and what lies at the places"
    return compare


def same_elements(ours, theirs, mode):
    """In any order."""
    return counted(ours, theirs) or CLOSE([ours[0].sort()[0]], [theirs[0].sort()[0]], mode)


def same_distribution(ours, theirs, mode):
    """Random numbers: the largest difference of the two distribution functions (Kolmogorov and Smirnov) is one that chance
    brings about less than once in 10^12 cases."""
    wrong = counted(ours, theirs)
    for mine, other in zip(ours, theirs):
        if wrong or not mine.numel():
            continue
        step = max(1, mine.numel() // 2**20)  # as many as say enough
        a, b = (x[::step].double().sort()[0] for x in (mine, other))
        if not bool(a.isfinite().all()):
            return "some numbers are not finite"
        import torch

        values = torch.cat([a, b])
        below = [torch.searchsorted(side, values, right=True) / side.numel() for side in (a, b)]
        distance, limit = (below[0] - below[1]).abs().max().item(), 3.8 * math.sqrt(2 / a.numel())
        if distance > limit:
            wrong = f"distributions are {distance:.4f} apart, {limit:.4f} at most: means {a.mean():.5g} and {b.mean():.5g}"
    return wrong


same_elements.by = "the sorted elements"
same_distribution.by = "their distributions"


def expecting(results, by, same=CLOSE):
    """Close to what `results()` gives, in place of what the reference ran: where that leaves the result open, or computes it
    in fewer bits than the operands' values need."""

    def compare(ours, theirs, mode):
        return same(ours, [x.detach().reshape(-1) for x in results()], mode)

    compare.by = by
    return compare
