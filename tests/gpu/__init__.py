"""Tests of the CUDA engine on a GPU, from a guest's program down to the hardware; many run on the fake driver, too."""
