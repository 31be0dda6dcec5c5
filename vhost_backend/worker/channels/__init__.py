"""Control system of a worker: a thread that executes commands on channels and sends their records to the daemon."""
