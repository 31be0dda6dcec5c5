"""Sandbox around processes that a guest can influence: compilers of its source, and workers that run its code.

===============  ==================================================================================
module           what it is
===============  ==================================================================================
`launcher/`      ``vgc-launch`` (C): namespaces, a root of its own, limits, then exec; also as a library
`launch`         Python interface of the launcher: command line, report, features that the host lacks
`spawn`          command line that starts a worker process inside its namespaces
`worker`         `enter()`: privileges that a worker gives up before it serves the first guest byte
`libraries`      shared libraries that programs need, for roots without the system's library folders
`policy`         system calls that a compiler and a worker may make
`seccomp`        policies as BPF programs
`syscalls`       system call numbers
`listener`       answers system calls that a permissive filter reports
`memfd`          sealed anonymous files
`build`          builds the launcher
===============  ==================================================================================
"""
