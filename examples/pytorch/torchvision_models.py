"""torchvision's networks, also where its compiled operators are not built for the installed torch: no classifier needs them."""

import torch

try:
    from torchvision import models
except RuntimeError:  # its operators are not there, and registering what they mean to torch.compile fails
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    _operators = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
        for _suffix in ("", "_backward"):
            _operators.define(f"_{_name}{_suffix}() -> ()" if _suffix else f"{_name}() -> ()")
    from torchvision import models


def classifier(name, **options):
    """A network with random weights; those that would draw them slowly use the layers' own."""
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    return getattr(models, name)(weights=None, **options)
