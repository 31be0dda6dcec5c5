"""The driver part of the CPU domain: control memory, channels and links, in C (``*.c``) and in front of it."""
