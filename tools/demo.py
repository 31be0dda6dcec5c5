"""``make demo``: a guest filters a photograph and multiplies matrices; the pictures land in ``build/demo/``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tools.common import BUILD, say
from tools.photo import photo

OUTPUT: Final = BUILD / "demo"
GUEST_PHOTO: Final = "/root/photo.png"
GUEST_OUTPUT: Final = "/root/out"
SECONDS: Final = 300


def main() -> None:
    """Boots a guest, runs both examples, prints their output and fetches their pictures."""
    with Vgcd(VmSettings("demo", num_queues=16)) as vgcd, Guest(vgcd.device("demo"), memory_mib=1024) as guest:
        say(f"a guest runs ({guest.machine}); its device:")
        print(guest.run("vgc info").stdout)
        guest.put(photo(), GUEST_PHOTO)
        guest.run(f"mkdir -p {GUEST_OUTPUT}")
        for example in (f"photo.py {GUEST_PHOTO} --output {GUEST_OUTPUT}", "matmul.py"):
            say(f"in the guest: python3 examples/{example}")
            print(guest.run(f"python3 examples/{example}", timeout=SECONDS).stdout)
        pictures = fetch_pictures(guest)
    say("pictures: " + ", ".join(str(path) for path in pictures))


def fetch_pictures(guest: Guest) -> list[Path]:
    """Copies the example's pictures to the host, into a fresh folder."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    names = guest.run(f"ls {GUEST_OUTPUT}").stdout.split()
    for name in names:
        (OUTPUT / name).write_bytes(guest.get(f"{GUEST_OUTPUT}/{name}"))
    return [OUTPUT / name for name in names]


if __name__ == "__main__":
    main()
