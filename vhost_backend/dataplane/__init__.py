"""The data plane, in C, called through ``vhost_backend._dataplane``."""
