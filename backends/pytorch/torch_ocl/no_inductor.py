"""What Inductor, torch.compile's default backend, is told: that this device has no code generator for it. Inductor asks
the device's module for its classes by name; ocl.py has them from here only then, since this imports Inductor."""

from torch._inductor.codegen.common import DeviceOpOverrides, register_device_op_overrides


class Refusal:
    """In place of each of the classes that generate code."""

    supports_caching = False

    def __init__(self, *_, **__):
        raise NotImplementedError(
            "torch.compile's default backend, inductor, generates no code for ocl. These work: "
            "torch.compile(..., backend='aot_eager') and backend='eager', or without compiling"
        )

    @classmethod
    def create(cls, *_, **__):
        return cls()


# Asked for before the classes are.
register_device_op_overrides("ocl", DeviceOpOverrides())
