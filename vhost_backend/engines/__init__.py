"""Engines: what computes behind the device."""
