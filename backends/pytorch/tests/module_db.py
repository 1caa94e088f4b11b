"""PyTorch's own list of modules (module_db) on the device against the CPU: every sample, forward and gradient.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/module_db.py [--dtype float32] [--jobs 2] [--out table.json] [NAME...]

Each sample runs in training and in evaluation, there with and without gradients, as fused layers of transformers ask for
the latter. Outputs are compared, what the module keeps, and the gradients of inputs and parameters; judge.py says when they
are right. Probabilities of dropout inside a module are made 0.
"""

import copy
import re
import sys

from judge import Wrong, compare, compare_gradients, everywhere, main, run_everywhere, tensors
import torch

DATABASE = "modules"
# Results that no seed makes equal on two devices: only shapes and dtypes are compared, in training.
RANDOM = re.compile(r"Dropout|RReLU|FractionalMaxPool")
STEPS = 4  # a layer of a transformer is a dozen operators


def without_dropout(module):
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part is not module:
            part.p = 0.0
        elif isinstance(getattr(part, "dropout", None), float):
            part.dropout = 0.0
    return module


def lazy_on_device(module, base, arguments, named):
    """The lazy module, which learns its sizes on the device; its numbers are those of `base`, which learned them here."""
    module = module.to("ocl")
    with torch.no_grad():
        module(*arguments, **named)
    module.load_state_dict(base.state_dict())
    return module


def modules_of(info, sample, dtype, training):
    """The sample's module in each place, with the same numbers."""
    torch.manual_seed(0)
    made = sample.constructor_input
    module = without_dropout(info.module_cls(*made.args, **made.kwargs)).to(dtype).train(training)
    lazy = copy.deepcopy(module) if info.is_lazy else None
    if info.is_lazy:
        with torch.no_grad():
            module(*sample.forward_input.args, **sample.forward_input.kwargs)
    result = {"cpu": module, "f64": copy.deepcopy(module).double()}
    if info.is_lazy:
        arguments = everywhere((sample.forward_input.args, sample.forward_input.kwargs))["ocl"]
        result["ocl"] = lazy_on_device(lazy, module, *arguments)
    else:
        result["ocl"] = copy.deepcopy(module).to("ocl")
    return result


def run_sample(info, sample, dtype, training, gradient):
    modules = modules_of(info, sample, dtype, training)
    trees = everywhere((sample.forward_input.args, sample.forward_input.kwargs))
    with torch.set_grad_enabled(gradient):
        results = run_everywhere(lambda place: modules[place](*trees[place][0], **trees[place][1]))
    if results is None:
        return False
    random = bool(RANDOM.search(info.name)) and (training or "Fractional" in info.name)
    for i, (g, e) in enumerate(zip(results["ocl"], results["cpu"])):
        compare(f"output {i}", g, e, results["f64"][i] if results["f64"] else None, random, steps=STEPS)
    kept = {place: dict(module.named_buffers()) for place, module in modules.items()}
    for name, e in kept["cpu"].items():
        compare(name, kept["ocl"][name], e, kept["f64"][name], steps=STEPS)
    if gradient and not random:
        parameters = {place: dict(module.named_parameters()) for place, module in modules.items()}
        if list(parameters["ocl"]) != list(parameters["cpu"]):
            raise Wrong(f"parameters {list(parameters['ocl'])}, not {list(parameters['cpu'])}")
        leaves = {p: [t for t in tensors(trees[p]) + list(parameters[p].values()) if t.requires_grad] for p in trees}
        compare_gradients(results, leaves, STEPS)
    return True


def samples(name, dtype):
    info = module_infos()[name]
    for training, gradient in ((True, True), (False, True), (False, False)):
        for sample in info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training):
            if sample.forward_input is not None:
                yield lambda s=sample, t=training, g=gradient: run_sample(info, s, dtype, t, g)


def module_infos():
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def names(dtype):
    return list(module_infos())


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
