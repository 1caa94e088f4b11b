"""Lightning on this device, which its own lists do not know:

    import torch_ocl.lightning
    trainer = lightning.Trainer(**torch_ocl.lightning.on("ocl:0"), max_epochs=3)

Both packages, lightning and pytorch_lightning, have classes of their own: the one that is there is used."""

import torch

try:
    from lightning.pytorch import accelerators, strategies
except ImportError:
    from pytorch_lightning import accelerators, strategies


class OclAccelerator(accelerators.Accelerator):
    """What a Trainer asks of a device."""

    def setup_device(self, device):
        torch.ocl.set_device(device)

    def teardown(self):
        torch.ocl.empty_cache()

    def get_device_stats(self, device):
        return torch.ocl.memory_stats(device)

    @staticmethod
    def parse_devices(devices):
        return devices

    @staticmethod
    def get_parallel_devices(devices):
        return [torch.device("ocl", i) for i in range(int(devices))]

    @staticmethod
    def auto_device_count():
        return torch.ocl.device_count()

    @staticmethod
    def is_available():
        return torch.ocl.is_available()

    @staticmethod
    def name():
        return "ocl"


def on(device="ocl:0"):
    """A Trainer's arguments for one device."""
    device = torch.device(device)
    return {"accelerator": OclAccelerator(), "devices": 1, "strategy": strategies.SingleDeviceStrategy(device=device)}
