"""Trains a small network on the host's GPU with tinygrad, unchanged from PyPI; CUDA compiles by NVRTC, CUDA:PTX needs no
compiler at all:

    DEV=CUDA vgc exec python examples/frameworks/train_tinygrad.py
"""

import numpy as np
from tinygrad import Device, Tensor
from tinygrad.helpers import Context
from tinygrad.nn.optim import SGD

random = np.random.default_rng(0)
x, y = random.random((65, 48), np.float32), random.random((48, 33), np.float32)
assert np.allclose((Tensor(x) @ Tensor(y)).numpy(), x @ y, rtol=1e-4)

inputs = Tensor(x)
target = inputs.sum(axis=1, keepdim=True)
hidden, out, losses = Tensor.uniform(48, 16), Tensor.uniform(16, 1), []
step = SGD([hidden, out], lr=0.002)
with Context(TRAINING=1):
    for _ in range(8):
        step.zero_grad()
        loss = ((inputs @ hidden).relu() @ out - target).square().mean().backward()
        step.step()
        losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
print(f"{Device.DEFAULT}: the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")
