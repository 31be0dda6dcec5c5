"""Entry point of ``python -m guest_driver``: the `vgc` command."""

from __future__ import annotations

from guest_driver.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
