"""Load management [patent 0121-0124]: what every element, VM and GPU of the host has to do, and where work should move.

- `meter`: busy time of elements, as channels of the function *load* report it, made into loads of VMs, GPUs and host.
- `strategy`: the whole system's load in, moves out. Pure functions: no clock, no state but what they are given.
- `commands`: the verbs ``load`` and ``balance`` of the control API, and what feeds the meter while somebody asks.

What carries a move out is `vhost_backend.daemon.migration`; who is asked for one, `vhost_backend.control.moves`.
"""
