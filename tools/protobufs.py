"""``python -m tools.protobufs``: generates the messages of `vgc_kubernetes.protos` from the .proto files there.

``--check`` exits 1 if a committed file is stale. The compiler's version is fixed in pyproject.toml, as it writes its own into them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, die

PROTOS: Final = Path("vgc_kubernetes/protos")


def generated(folder: Path) -> dict[Path, str]:
    """Generates all files below `folder`; returns their paths, below the repository, and contents."""
    sources = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / PROTOS).glob("*.proto"))
    argv = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={folder}", f"--pyi_out={folder}"]
    if subprocess.run([*argv, *sources], cwd=REPOSITORY, check=False).returncode != 0:
        die("protoc failed", hint="its own message is above; pip install 'virtio-gpu-compute[dev]' has the compiler")
    return {path.relative_to(folder): path.read_text() for path in sorted((folder / PROTOS).iterdir())}


def main(argv: list[str] | None = None) -> int:
    """Writes the generated files, or with ``--check`` reports those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.protobufs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check that the committed files are current")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        texts = generated(Path(folder))
    present = {path.relative_to(REPOSITORY) for path in (REPOSITORY / PROTOS).glob("*_pb2.py*")}
    stale = sorted(present - texts.keys())
    stale += [path for path, text in texts.items() if path not in present or (REPOSITORY / path).read_text() != text]
    for path in stale:
        if args.check:
            sys.stderr.write(f"{path} is stale: run `python -m tools.protobufs`\n")
        elif path in texts:
            (REPOSITORY / path).write_text(texts[path])
        else:
            (REPOSITORY / path).unlink()
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
