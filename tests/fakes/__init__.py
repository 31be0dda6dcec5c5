"""Stand-ins for the other side: a guest driver and a frontend, without QEMU."""
