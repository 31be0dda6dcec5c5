"""A small neural network by tinygrad's kernels that another machine compiled, without a GPU there.

python3 examples/ptx/layers_tinygrad.py compile      with `pip install tinygrad`: writes layers_tinygrad.ptx and .json
python3 examples/ptx/layers_tinygrad.py run          in the guest, where there is no tinygrad

tinygrad's own PTX renderer needs no compiler of NVIDIA's. Each layer becomes a kernel, whose first parameter is its result.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

MODULE = Path(__file__).with_suffix(".ptx")
LAUNCHES = MODULE.with_suffix(".json")
SAMPLES = 32
SIZES = (64, 128, 10)
"""Inputs of the network, and outputs of each layer."""


def compile_layer(inputs: int, outputs: int, *, is_last: bool) -> tuple[str, dict[str, Any]]:
    """Module and launch of one layer."""
    from tinygrad import Device, Tensor
    from tinygrad.codegen import to_program

    x, w, b = (Tensor.empty(*shape) for shape in ((SAMPLES, inputs), (inputs, outputs), (outputs,)))
    sums = x @ w + b
    (call,) = (sums if is_last else sums.relu()).schedule_linear().src
    program = to_program(call.src[0], Device["NULL"].renderer)
    about = program.arg
    launch = {"kernel": about.function_name, "grid": about.global_size, "block": about.local_size}
    return program.src[-1].arg.decode(), launch


def compile_network() -> None:
    """Writes the module with all layers, and their launches."""
    os.environ["DEV"] = "MOCK+NULL:PTX:sm_80"  # renders PTX, and runs nothing
    pairs = list(pairwise(SIZES))
    layers = [compile_layer(*pair, is_last=pair == pairs[-1]) for pair in pairs]
    heading, _, _ = layers[0][0].partition(".visible")
    MODULE.write_text(heading + "".join(text.removeprefix(heading) + "\n" for text, _ in layers))
    LAUNCHES.write_text(json.dumps([launch for _, launch in layers]) + "\n")


def run() -> int:
    """Runs the network on the device with random weights, and checks the result with numpy."""
    import numpy as np

    import guest_driver as vgc

    random = np.random.default_rng(0)
    values = expected = random.standard_normal((SAMPLES, SIZES[0]), np.float32)
    with vgc.Device() as device:
        program = device.load_ptx(MODULE)
        on_device = device.to_device(values)
        for number, launch in enumerate(json.loads(LAUNCHES.read_text())):
            w = (
                random.standard_normal((SIZES[number], SIZES[number + 1]), np.float32)
                / np.float32(SIZES[number]) ** 0.5
            )
            b = random.standard_normal(SIZES[number + 1], np.float32)
            result = device.empty((SAMPLES, SIZES[number + 1]))
            kernel = program[launch["kernel"]][tuple(launch["grid"]), tuple(launch["block"])]
            kernel(result, on_device, device.to_device(w), device.to_device(b))
            on_device, expected = result, expected @ w + b
            if number < len(SIZES) - 2:
                expected = np.maximum(expected, 0)
        is_right = bool(np.allclose(on_device.get(), expected, atol=1e-2))  # tinygrad multiplies TF32: 10 bits
    print(f"{SAMPLES} samples, {len(SIZES) - 1} layers: {'right' if is_right else 'wrong'}")
    return 0 if is_right else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=["compile", "run"])
    if parser.parse_args().half == "run":
        return run()
    compile_network()
    return 0


if __name__ == "__main__":
    sys.exit(main())
