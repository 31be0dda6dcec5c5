"""``make deb``: Debian packages of hosts and guests, in build/packages/."""
