"""Training steps of a small network by PyTorch, in a guest; run by tests/protocol/test_pytorch.py and tests/gpu/test_pytorch.py.

Prints the loss and a digest of the parameters after each step, on the device that the command line names.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional

from tests.frameworks.pytorch_sizes import MARK_BYTES, STEPS


def network() -> nn.Module:
    """Two convolutions, and a layer of products."""
    first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 4 * 4, 10))


def train(optimizer: str, device: str) -> list[list[float]]:
    """Losses, and sums of the parameters' magnitudes, of each step."""
    torch.manual_seed(1)
    model = network()
    images, labels = torch.randn(32, 1, 16, 16), torch.randint(0, 10, (32,))
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    kinds = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "adam": lambda p: torch.optim.Adam(p, lr=1e-2)}
    optimiser = kinds[optimizer](model.parameters())
    found = []
    for _ in range(STEPS):
        torch.zeros(MARK_BYTES, dtype=torch.uint8).to(device)
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimiser.step()
        torch.zeros(MARK_BYTES, dtype=torch.uint8).to(device)
        found.append([loss.item(), *(float(p.detach().abs().sum()) for p in model.parameters())])
    return found


if __name__ == "__main__":
    torch.backends.cudnn.enabled = "without-cudnn" not in sys.argv[2:]
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    for each in ("sgd", "adam"):
        for step in train(each, sys.argv[1]):
            print(each, *step)
