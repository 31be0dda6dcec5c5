"""Programs over particles."""

from __future__ import annotations

from itertools import product

import numpy as np

from bench.programs.program import Program, Step

_PARTICLES = 64
_ALPHA = 0.5


def lavamd(side: int = 5) -> Program:
    """Forces between the particles of neighbouring boxes: side^3 boxes with 64 particles each."""
    random = np.random.default_rng(11)
    boxes = np.array(list(product(range(side), repeat=3)))  # z, y, x
    particles = random.random((len(boxes), _PARTICLES, 4), np.float32)
    particles[:, :, :3] += boxes[:, None, ::-1]
    exact = np.zeros((len(boxes), _PARTICLES, 4))
    doubles = particles.astype(np.float64)
    for box, place in enumerate(boxes):
        near = np.max(np.abs(boxes - place), axis=1) <= 1
        others = doubles[near].reshape(-1, 4)
        apart = doubles[box][:, None, :3] - others[None, :, :3]
        pull = others[:, 3] * np.exp(-_ALPHA * np.sum(apart * apart, axis=2))
        exact[box, :, :3] = np.sum(pull[:, :, None] * apart, axis=1)
        exact[box, :, 3] = np.sum(pull, axis=1)
    arrays = {"particles": particles.reshape(-1), "forces": np.zeros(exact.size, np.float32)}
    arguments = (np.int32(side), np.float32(_ALPHA), "particles", "forces")
    step = Step("lavamd", (side, side, side), (_PARTICLES, 1, 1), arguments)
    return Program("lavamd", arrays, (step,), arguments, {"forces": exact.reshape(-1)})
