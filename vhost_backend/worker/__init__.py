"""The worker: one process per VM that works its vrings and runs its guest code."""
