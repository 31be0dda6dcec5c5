"""A job as it may come from anywhere: it trains, and then takes all that it can get.

Run by examples/sandbox/run.py, or in any guest that has tinygrad:

    vgc exec python examples/sandbox/job.py
"""

import subprocess
from pathlib import Path

import numpy as np
from tinygrad import Tensor
from tinygrad.helpers import Context
from tinygrad.nn.optim import SGD

ENDLESS = "__global__ void endless(volatile int *stop) { while (*stop == 0) {} }"
MIB = 1 << 20


def train() -> str:
    random = np.random.default_rng(0)
    inputs, target = Tensor(random.random((64, 16), np.float32)), Tensor(random.random((64, 1), np.float32))
    weights = Tensor.zeros(16, 1).contiguous()
    optimiser, losses = SGD([weights], lr=0.05), []
    with Context(TRAINING=1):
        for _ in range(20):
            optimiser.zero_grad()
            loss = (inputs @ weights - target).square().mean().backward()
            optimiser.step()
            losses.append(loss.item())
    return f"the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}"


def take_memory() -> str:
    taken: list[Tensor] = []
    try:
        while True:
            taken.append((Tensor.zeros(8 * MIB // 4) + len(taken)).contiguous().realize())
    except MemoryError:
        return f"memory ended after {8 * len(taken)} MiB"


def compute_for_ever() -> str:
    source = Path("/tmp/endless.cu")  # noqa: S108  the VM's own
    source.write_text(f'extern "C" {ENDLESS}')
    command = ["vgc", "run", str(source), "--kernel", "endless", "--arg", "out:int32:1"]
    return f"an endless kernel: {subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()}"


if __name__ == "__main__":
    print(subprocess.run(["vgc", "smi", "-L"], capture_output=True, text=True, check=True).stdout.strip())
    for part in (train, take_memory, train, compute_for_ever):
        print(part(), flush=True)
