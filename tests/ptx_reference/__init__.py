"""A slow interpreter of PTX, written from NVIDIA's description of the ISA alone, and tests that compare it with the
software GPU bit for bit.
"""
