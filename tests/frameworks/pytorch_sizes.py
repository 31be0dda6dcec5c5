"""Sizes of the training run, for its test, too, which has no PyTorch."""

STEPS = 3
MARK_BYTES = 4321
"""Size of a copy before and behind each step, by which the driver's calls of a step are told apart."""
