"""Compute on a virtio-gpu-compute device from a virtual machine.

import numpy as np
import guest_driver as vgc

with vgc.Device() as dev:
    program = dev.compile('''
        extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }''')
    x = dev.to_device(np.arange(1000, dtype=np.float32))
    y = dev.to_device(np.ones(1000, dtype=np.float32))
    program.saxpy[4, 256](1000, 2.0, x, y)
    print(y.get())
"""

from __future__ import annotations

from guest_driver.arguments import In, InOut, Out
from guest_driver.device import Device, DeviceInfo, FoundDevice, Process, Usage, devices
from guest_driver.errors import (
    BadRequest,
    Cancelled,
    CompileError,
    Deadlock,
    DeviceLost,
    Incompatible,
    InternalError,
    InvalidAddress,
    InvalidArgument,
    KernelAssert,
    KernelFault,
    LaunchFailed,
    NoAnswer,
    NoContext,
    NoDevice,
    NoPermission,
    NotFound,
    ObjectLost,
    OutOfMemory,
    Pending,
    ResourcesExhausted,
    ShadowMismatch,
    SystemFailure,
    Timeout,
    Unsupported,
    VgcError,
)
from guest_driver.job import Job, Timing
from guest_driver.memory import DeviceArray, DeviceMemory
from guest_driver.named import NamedFunctions, Outcome
from guest_driver.program import Function, Program, Unit
from guest_driver.shadow import ShadowArray, ShadowDevice
from guest_driver.stream import Event, Stream
from guest_driver.texture import KernelObject, TextureArray

__all__ = [
    "BadRequest",
    "Cancelled",
    "CompileError",
    "Deadlock",
    "Device",
    "DeviceArray",
    "DeviceInfo",
    "DeviceLost",
    "DeviceMemory",
    "Event",
    "FoundDevice",
    "Function",
    "In",
    "InOut",
    "Incompatible",
    "InternalError",
    "InvalidAddress",
    "InvalidArgument",
    "Job",
    "KernelAssert",
    "KernelFault",
    "KernelObject",
    "LaunchFailed",
    "NamedFunctions",
    "NoAnswer",
    "NoContext",
    "NoDevice",
    "NoPermission",
    "NotFound",
    "ObjectLost",
    "Out",
    "OutOfMemory",
    "Outcome",
    "Pending",
    "Process",
    "Program",
    "ResourcesExhausted",
    "ShadowArray",
    "ShadowDevice",
    "ShadowMismatch",
    "Stream",
    "SystemFailure",
    "TextureArray",
    "Timeout",
    "Timing",
    "Unit",
    "Unsupported",
    "Usage",
    "VgcError",
    "devices",
]
