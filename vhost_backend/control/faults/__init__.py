"""Faults: the fault book, policies that act on faults, and snapshots of processing elements."""
