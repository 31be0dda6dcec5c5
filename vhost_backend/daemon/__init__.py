"""The daemon: holds sockets, memory tables, descriptors and quotas; starts and replaces workers."""
