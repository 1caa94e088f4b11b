"""Image classifiers on a PyTorch device against the CPU in f64: the output, the gradients of all weights and of the image.

    python examples/pytorch/validate_networks.py --device ocl:0                    # all networks, at their image size
    python examples/pytorch/validate_networks.py resnet18 vit_b_16 --size 64       # these, with small images

Networks are torchvision's with random weights, in training mode without dropout. An error is the norm of the difference over the
norm of what is right. Where a number lies beside the kink of a ReLU any rounding may turn a gradient on or off, so the CPU computes
in f32 several times, of images that differ in the last bits: an error may be --times the largest of its, and a millionth at least.
"""

import argparse
import copy
import gc
import os
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
import torch  # noqa: E402

from torchvision_models import classifier  # noqa: E402

NETWORKS = [
    "alexnet", "resnet18", "resnet50", "vgg16", "densenet161", "googlenet", "squeezenet1_0", "inception_v3",
    "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "resnext50_32x4d", "wide_resnet50_2",
    "mnasnet1_0", "efficientnet_b0", "efficientnet_b4", "regnet_y_400mf", "convnext_small", "vit_b_16", "swin_t",
]  # fmt: skip
SIZES = {"inception_v3": 299}
SMALLEST = {"alexnet": 63, "inception_v3": 75}


def build(name, size):
    torch.manual_seed(0)
    options = {"image_size": size} if name.startswith("vit") else {}
    if name == "inception_v3" and size < SIZES[name]:
        options["aux_logits"] = False  # its second classifier takes large images alone
    model = classifier(name, **options)
    for layer in model.modules():
        if isinstance(getattr(layer, "p", None), float):  # Dropout and StochasticDepth
            layer.p = 0.0
        if isinstance(getattr(layer, "dropout", None), float):  # MultiheadAttention
            layer.dropout = 0.0
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.any():  # a head that begins with zeros would hide what comes before it
            torch.nn.init.normal_(weight, std=0.02)
    return model.train()


def outputs_of(result):
    """The logits; of networks with auxiliary classifiers all logits."""
    parts = result if isinstance(result, tuple) else (result,)
    return torch.cat([part.flatten() for part in parts if part is not None])


def run(model, image):
    """The output and all gradients, each one vector."""
    image = image.detach().requires_grad_()
    model.zero_grad()
    output = outputs_of(model(image))
    torch.manual_seed(2)
    output.backward(torch.randn(output.shape).to(output))
    gradients = [image.grad, *(p.grad for p in model.parameters())]
    return output.detach(), torch.cat([g.flatten() for g in gradients])


def error(got, right):
    return float((got.double().cpu() - right).norm() / right.norm())


def validate(name, options):
    size = options.size or SIZES.get(name, 224)
    size = max(size, SMALLEST.get(name, 0))
    model = build(name, size)
    torch.manual_seed(1)
    image = torch.randn(options.batch, 3, size, size)
    state = copy.deepcopy(model.state_dict())
    right = run(model.double(), image.double())
    model.float().load_state_dict(state)
    cpu = [0.0, 0.0]
    for attempt in range(options.attempts):
        noise = 2.0**-23 * bool(attempt) * torch.randn(image.shape, generator=torch.Generator().manual_seed(attempt))
        cpu = [max(worst, error(mine, truth)) for worst, mine, truth in zip(cpu, run(model, image * (1 + noise)), right)]
        model.load_state_dict(state)
    model.to(options.device)
    start = time.time()
    got = [part.cpu() for part in run(model, image.to(options.device))]
    first = time.time() - start
    start = time.time()
    run(model, image.to(options.device))[0].cpu()
    seconds = time.time() - start
    bad = False
    columns = []
    for mine, there, truth in zip(got, cpu, right):
        here = error(mine, truth)
        bad = bad or not here <= max(options.times * there, 1e-6)
        columns.append(f"{here:9.2e} {there:9.2e}")
    print(f"{name:20} {columns[0]}   {columns[1]}   {first:7.2f} s {seconds:7.3f} s  {'WRONG' if bad else 'right'}",
          flush=True)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--size", type=int, help="of images, in pixels; by default what a network is made for")
    parser.add_argument("--attempts", type=int, default=8, help="how often the CPU computes in f32")
    parser.add_argument("--times", type=float, default=4, help="how much larger than the CPU's an error may be")
    options = parser.parse_args()

    print(f"{'':20} {'output':^19}   {'gradients':^19}   {'forward and backward':^19}")
    print(f"{'':20} {options.device:>9} {'cpu f32':>9}   {options.device:>9} {'cpu f32':>9}   {'first':>9} {'second':>9}")
    wrong = []
    for name in options.networks:
        if not validate(name, options):
            wrong.append(name)
        gc.collect()
    print(f"{len(options.networks) - len(wrong)} of {len(options.networks)} networks are right"
          + (f"; wrong: {', '.join(wrong)}" if wrong else ""))
    if options.device.startswith("ocl"):
        print(torch.ocl.fallbacks())
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
