"""Devices of `vgcd` in domains of libvirt: the command ``vgc-libvirt``.

libvirt (to 12.8) has no element for a generic vhost-user device: its QEMU options stand in the domain's ``<qemu:commandline>``.
"""
