"""Walls around what a guest can influence: compilers of its source, and workers that run its code.

===============  ==================================================================================
module           what it is
===============  ==================================================================================
`launcher/`      ``vgc-launch`` (C): namespaces, a root of its own, limits, then exec
`launch`         the Python side of it: command line, report, what the host lacks
`compile`        one compiler run: source in, image and log out
`spawn`          starts a worker process inside its namespaces
`worker`         `enter()`: what a worker gives up before it serves the first guest byte
`policy`         which system calls a compiler and a worker may make
`seccomp`        policies as BPF programs
===============  ==================================================================================
"""
