"""Finds tones in noise with built-in functions of the host: no CUDA source, no compiler.

python3 examples/spectrum.py [--samples 65536] [--tones 440,1250]

The signal stays on the device from its random numbers to the peaks of its spectrum; numpy's functions and operators on
device arrays run there. docs/functions.md has all functions.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import guest_driver as vgc

RATE = 8192
"""Samples in a second."""


def signal(device: vgc.Device, samples: int, tones: list[float]) -> Any:
    """Device array of tones and as much noise."""
    time = device.to_device(np.arange(samples) / RATE)
    heard: Any = device.random.normal((samples,), seed=1, dtype="float64")
    for tone in tones:
        heard = heard + np.sin(time * (2 * np.pi * tone))
    return heard


def peaks(device: vgc.Device, heard: Any, count: int) -> list[float]:
    """Frequencies of the strongest tones, in ascending order."""
    transformed: Any = np.fft.rfft(heard)
    spectrum = transformed.get()
    order: Any = np.argsort(device.to_device(spectrum.real**2 + spectrum.imag**2))
    strongest = order.get()[-count:]
    return sorted(float(at) * RATE / heard.size for at in strongest)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=65536)
    parser.add_argument("--tones", default="440,1250", help=f"frequencies in Hz, below {RATE // 2}")
    given = parser.parse_args()
    tones = sorted(float(tone) for tone in given.tones.split(","))
    with vgc.Device() as device:
        found = peaks(device, signal(device, given.samples, tones), len(tones))
    is_right = all(abs(tone - peak) <= RATE / given.samples for tone, peak in zip(tones, found, strict=True))
    print(", ".join(f"{peak:g} Hz" for peak in found), "right" if is_right else "wrong", sep=": ")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
