"""Attack programs: what a process that guest code owns can do to its daemon and its neighbours."""
