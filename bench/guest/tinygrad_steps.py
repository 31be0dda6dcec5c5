"""Measures tinygrad on a device: a product of matrices, and steps of a small network's training.

    python tinygrad_steps.py ROUNDS

Prints lines "NAME COUNT BEGAN ENDED", one per figure and round: how many were done between two moments of CLOCK_MONOTONIC. The
first round of each compiles.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import cast

from tinygrad import Device, Tensor, TinyJit, nn
from tinygrad.helpers import Context

SIZE = 512
BATCH = 64
REPEATED = 20


class Network:
    """Classifier of pictures with one hidden layer."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(784, 128), nn.Linear(128, 10)

    def __call__(self, pictures: Tensor) -> Tensor:
        return self.second(self.first(pictures).relu())


def product() -> Callable[[], object]:
    a, b = Tensor.uniform(SIZE, SIZE).realize(), Tensor.uniform(SIZE, SIZE).realize()

    @TinyJit
    def multiply() -> Tensor:
        return (a @ b).realize()

    return cast("Callable[[], object]", multiply)


def step() -> Callable[[], object]:
    network = Network()
    optimiser = nn.optim.SGD(nn.state.get_parameters(network), lr=0.01)
    pictures = Tensor.uniform(BATCH, 784).realize()
    labels = Tensor.randint(BATCH, high=10).realize()

    @TinyJit
    def train() -> Tensor:
        optimiser.zero_grad()
        loss = network(pictures).sparse_categorical_crossentropy(labels).backward()
        return loss.realize(*optimiser.schedule_step())

    return cast("Callable[[], object]", train)


def main() -> None:
    device = Device[Device.DEFAULT]
    with Context(TRAINING=1):
        for name, work in (("matmul", product()), ("step", step())):
            for _ in range(int(sys.argv[1]) + 1):
                device.synchronize()
                began = time.monotonic_ns()
                for _ in range(REPEATED):
                    work()
                device.synchronize()
                print(name, REPEATED, began, time.monotonic_ns())


if __name__ == "__main__":
    main()
