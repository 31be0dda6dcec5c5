"""Load management: the load of every processing element, VM and GPU of the host, and migrations that even it out.

- `meter`: loads, computed from the busy times that channels of the function *load* report.
- `watch`: opens these channels while clients ask for loads.
- `strategy`: proposes migrations from the loads of the whole host. Pure functions, without clock or state.
- `migrations`: starts and lists migrations; `vhost_backend.daemon.migration` carries them out.
- `commands`: the verbs ``load`` and ``balance`` of the control API.
"""
