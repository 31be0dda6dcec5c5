"""Entry of ``vgc-libvirt``, which says what is missing if its Python packages are not installed."""

from __future__ import annotations

import sys
from typing import Final

MISSING: Final = 3
"""Exit code: the host lacks something."""


def main() -> int:
    """Runs the program; returns its exit code."""
    try:
        from vgc_libvirt import cli
    except ModuleNotFoundError as error:
        from vhost_backend.doctor import remedies

        install = (
            "apt-get install python3-libvirt python3-lxml"
            if remedies.package()
            else "pip install 'virtio-gpu-compute[libvirt]'"
        )
        sys.stderr.write(f"vgc-libvirt: the Python package {error.name} is not installed ({install})\n")
        return MISSING
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
