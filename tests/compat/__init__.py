"""Compatibility runner: builds and runs folders of public CUDA programs unmodified, and says which pass and why others fail."""
