"""Processors of the host that VMs have for their own: who has which, and the threads that run on them."""
