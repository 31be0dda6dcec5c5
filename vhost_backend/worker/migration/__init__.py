"""Migration in a worker: one worker saves its VM's work into a file, and the next one loads it from there."""
