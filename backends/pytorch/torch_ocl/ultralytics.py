"""ultralytics on this device, which its own list does not know:

    import torch_ocl.ultralytics
    YOLO("yolov8n.yaml").train(data="coco8.yaml", device="ocl:0", amp=False)

Import it before or after ultralytics' own modules. Names of other devices are ultralytics' own."""

import sys

import torch
from ultralytics.utils import torch_utils

_select = torch_utils.select_device


def select_device(device="", *args, **kwargs):
    """ultralytics' select_device(), and "ocl" and "ocl:N"."""
    if str(device).startswith("ocl"):
        return torch.device(str(device))
    return _select(device, *args, **kwargs)


for _name, _module in list(sys.modules.items()):
    if _name.startswith("ultralytics.") and getattr(_module, "select_device", None) is _select:
        _module.select_device = select_device
