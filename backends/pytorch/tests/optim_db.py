"""PyTorch's own list of optimizers (optim_db) on the device against the CPU: every configuration, some steps of each.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/optim_db.py [--dtype float32] [--jobs 2] [--out table.json] [NAME...]

Configurations are those for CUDA: of each one kept alone, foreach, fused, capturable and differentiable as the database
gives them. The CPU makes the same steps in its plainest way. Weights and the optimizer's state are compared, of a
differentiable step the gradients too; judge.py says when they are right. SparseAdam is left out: its gradients are sparse.
Of LBFGS weights alone are compared: what it remembers where it stands at the minimum is rounding.
"""

import inspect
import sys

from judge import PLACES, Wrong, compare, compare_gradients, everywhere, is_tensor, main, run_everywhere
import torch

DATABASE = "optimizers"
STEPS = 4
SHAPES = [(7, 5), (13,), (2, 3, 4), ()]
WAYS = ("foreach", "fused", "capturable", "differentiable")  # how a step is made, not what it makes


def weights_of(info, dtype):
    shapes = [(7, 5), (3, 4)] if info.name == "Muon" else SHAPES
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def plain(info, options):
    known = inspect.signature(info.optim_cls.__init__).parameters
    return {**{k: v for k, v in options.items() if k not in WAYS}, **({"foreach": False} if "foreach" in known else {})}


def step_with(optimizer, weights, gradients, info):
    for weight, gradient in zip(weights, gradients):
        weight.grad = gradient
    if not info.step_requires_closure:
        return optimizer.step()

    def closure():
        """A valley with its lowest place at the gradients."""
        optimizer.zero_grad()
        loss = sum(((weight - gradient) ** 2 + (weight - gradient) ** 4).sum()
                   for weight, gradient in zip(weights, gradients))
        loss.backward()
        return loss

    return optimizer.step(closure)


def states_of(optimizer, weights):
    """[(name, tensor)]: what the optimizer remembers, in an order that is the same everywhere."""
    return [(f"{name} of weight {i}", value) for i, weight in enumerate(weights)
            for name, value in sorted(optimizer.state[weight].items()) if is_tensor(value)]


def run_steps(info, options, dtype):
    torch.manual_seed(0)
    weights = everywhere(weights_of(info, dtype))
    seeds = [everywhere([torch.randn(w.shape, dtype=torch.float64).to(dtype) for w in weights["cpu"]])
             for _ in range(STEPS)]
    if info.step_requires_closure:
        seeds = seeds[:1] * STEPS  # one valley
    # PyTorch's fused SGD takes momenta of all weights or of none.
    late = not info.step_requires_closure and not (info.name == "SGD" and options.get("fused"))
    optimizers = {place: info.optim_cls(weights[place], **(options if place == "ocl" else plain(info, options)))
                  for place in PLACES}
    for step, gradients in enumerate(seeds):
        for place in PLACES:
            given = list(gradients[place])
            if step == 0 and late:
                given[1] = None  # one weight begins later than the others
            step_with(optimizers[place], weights[place], given, info)
    for i, (g, e, f) in enumerate(zip(*(weights[place] for place in ("ocl", "cpu", "f64")))):
        compare(f"weight {i}", g, e, f)
    if info.step_requires_closure:
        return True
    states = {place: states_of(optimizers[place], weights[place]) for place in PLACES}
    if [name for name, _ in states["ocl"]] != [name for name, _ in states["cpu"]]:
        raise Wrong(f"keeps {[n for n, _ in states['ocl']]}, not {[n for n, _ in states['cpu']]}")
    for (name, g), (_, e), (_, f) in zip(*(states[place] for place in ("ocl", "cpu", "f64"))):
        if name.startswith("step ") or e.dim() == 0 and g.device.type == "cpu":
            g, e, f = g.cpu().float(), e.float(), f.float()  # counts of steps lie where the way of making them wants them
            compare(name, g, e, f, place="cpu")
        else:
            compare(name, g, e, f)
    return True


def run_differentiable(info, options, dtype):
    """A step that has a gradient itself, with respect to the weights and their gradients."""
    torch.manual_seed(0)
    weights = everywhere(weights_of(info, dtype))
    gradients = everywhere([torch.randn(w.shape, dtype=torch.float64).to(dtype).requires_grad_() for w in weights["cpu"]])

    def run(place):
        moving = [w.clone() for w in weights[place]]
        optimizer = info.optim_cls(moving, **{**plain(info, options), "differentiable": True})
        step_with(optimizer, moving, [g.clone() for g in gradients[place]], info)
        return moving

    results = run_everywhere(run)
    if results is None:
        return False
    for i, (g, e, f) in enumerate(zip(*(results[place] for place in ("ocl", "cpu", "f64")))):
        compare(f"weight {i}", g, e, f)
    compare_gradients(results, {place: weights[place] + gradients[place] for place in PLACES})
    return True


def refused(info, options):
    """Whether PyTorch itself refuses these options together, on any device."""
    try:
        info.optim_cls([torch.zeros(2, 2, requires_grad=True)], **options)
        return False
    except (ValueError, RuntimeError):
        return True


def samples(name, dtype):
    from torch.testing._internal.common_optimizers import _get_optim_inputs_including_global_cliquey_kwargs as inputs_of

    info = optimizer_infos()[name]
    for given in inputs_of("cuda", dtype, info):
        options = given.kwargs
        if refused(info, options):
            continue
        run = run_differentiable if options.get("differentiable") else run_steps
        yield lambda run=run, options=options: run(info, options, dtype)


def optimizer_infos():
    from torch.testing._internal.common_optimizers import optim_db

    return {info.name: info for info in optim_db if not info.only_supports_sparse_grads}


def names(dtype):
    return list(optimizer_infos())


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
