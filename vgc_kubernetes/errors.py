"""Errors of the device plugin and the hook sidecar, and what each of them leads to.

=====================  =========================================================================
`RequestError`         a call of the kubelet or virt-launcher is answered with its text
`KubeletError`         the kubelet does not answer; the plugin tries again
`SetupError`           the program cannot start: its message, and exit code 1
=====================  =========================================================================
"""

from __future__ import annotations


class KubernetesError(Exception):
    """Base of every error that this package raises on purpose. Its text is for people."""


class RequestError(KubernetesError):
    """A request that cannot be fulfilled as it is; the text names what is wrong and what is allowed."""


class KubeletError(KubernetesError):
    """The kubelet cannot be asked, or refuses."""


class SetupError(KubernetesError):
    """Something that the program cannot start without is missing on this machine."""
