"""Frameworks' own test suites in the guest's view: which of their tests pass on the software GPU, and why others fail."""
