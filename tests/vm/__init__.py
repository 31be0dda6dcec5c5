"""Tests with a real QEMU and a real guest."""
