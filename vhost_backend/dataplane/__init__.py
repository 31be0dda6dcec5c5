"""The data plane: C, driven through ``vhost_backend._dataplane``."""
