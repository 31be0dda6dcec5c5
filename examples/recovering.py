"""Follows a pendulum's damped swing in steps, and goes on by itself when the host replaces its worker.

python3 examples/recovering.py [--pendulums 4096] [--steps 50] [--rounds 2000]

The state after each step is kept in the guest. If the worker is killed, the device recovers, the state is put back, and the
step is computed again: the result is the same. docs/guest.md, "When the worker is replaced", says what comes back by itself.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import guest_driver as vgc

BLOCK = 128

SOURCE = """
extern "C" __global__ void swing(int count, int rounds, const double *before, double *after)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    double angle = before[2 * i], speed = before[2 * i + 1];
    for (int round = 0; round < rounds; round++) {
        speed = 0.99995 * speed - 0.001 * angle;
        angle = angle + 0.001 * speed;
    }
    after[2 * i] = angle;
    after[2 * i + 1] = speed;
}
"""


class Swing:
    """Pendulums on a device: `kept` is their state after the last step that was done, in the guest.

    :param rounds: rounds of the kernel's loop in each step.
    """

    def __init__(self, kept: np.ndarray, rounds: int) -> None:
        self.kept = kept
        self.recoveries = 0
        self._rounds = rounds
        self._device = vgc.Device(recover=True, on_recovered=self._put_back)
        self._program: vgc.Program | None = None
        self._arrays: list[vgc.DeviceArray] = []

    def close(self) -> None:
        self._device.close()

    def _put_back(self, _device: vgc.Device) -> None:
        self.recoveries += 1
        print("the worker was replaced: the state is put back", flush=True)
        for array in self._arrays:
            array.set(self.kept)

    def step(self) -> None:
        """Computes a step, as often as it takes: what fails leaves `kept` as it was."""
        while True:
            try:
                self.kept = self._computed()
                return
            except vgc.ObjectLost:
                raise  # nothing that trying again could change
            except vgc.DeviceLost as error:
                print(f"again: {error}", flush=True)

    def _computed(self) -> np.ndarray:
        if self._program is None:
            self._program = self._device.compile(SOURCE)
        while len(self._arrays) < 2:
            self._arrays.append(self._device.to_device(self.kept))
        before, after = self._arrays
        blocks = -(-len(self.kept) // BLOCK)
        # It writes all of `after`, from `before` alone, which is there again: it may be repeated.
        self._program.swing.launch(blocks, BLOCK, len(self.kept), self._rounds, before, after, repeat=True)
        state = after.get()
        before.copy_from(after)
        return state


def expected(start: np.ndarray, rounds: int) -> np.ndarray:
    """Computes the same with numpy: a round is a product with a matrix."""
    accelerate, move = np.array([[1, 0], [-0.001, 0.99995]]), np.array([[1, 0.001], [0, 1]])
    turned: np.ndarray = start @ np.linalg.matrix_power(move @ accelerate, rounds).T
    return turned


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pendulums", type=int, default=4096, help="number of pendulums (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps, each kept in the guest (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2000, help="rounds of each step (default: %(default)s)")
    given = parser.parse_args()
    start = np.stack([np.linspace(0.1, 1, given.pendulums), np.zeros(given.pendulums)], axis=1)
    swing = Swing(start, given.rounds)
    for number in range(given.steps):
        swing.step()
        print(f"step {number + 1} of {given.steps} is kept", flush=True)
    swing.close()
    difference = float(np.abs(swing.kept - expected(start, given.steps * given.rounds)).max())
    is_right = difference < 1e-9
    print(
        f"{swing.recoveries} recoveries; largest difference to numpy: {difference:.1e} ({'right' if is_right else 'wrong'})"
    )
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
