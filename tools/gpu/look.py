"""First stage: looks at the machine, lists missing things, and keeps facts that may explain a later failure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tools.common import REPOSITORY
from tools.gpu import devices, evidence, packages
from tools.gpu.job import Job
from tools.gpu.kit_run import LEAST_PYTHON

NO_GPU: Final = "no GPU"
"""Beginning of `look`'s fact about the GPU if the machine has no GPU."""

PROGRAMS: Final = ("gcc", "g++", "make")
PROBE_S: Final = 60
COMMAND_S: Final = 20
"""Timeout of a command: the first program that uses a GPU starts it, which takes seconds."""

SMI_FIELDS: Final = "name,driver_version,memory.total,mig.mode.current,compute_mode,persistence_mode"

FACTS: Final = {
    "nvidia-smi": "nvidia-smi",
    "id": "id; uname -a; nproc; ulimit -a",
    "nodes": "ls -l /dev/nvidia* /dev/nvidia-caps/*",
    "driver": "cat /proc/driver/nvidia/version /proc/driver/nvidia/params /proc/driver/nvidia/gpus/*/information",
    "userns": "unshare -Urmpf --mount-proc true && echo 'user namespaces: yes'; cat /proc/sys/user/max_user_namespaces",
    "libraries": "ldconfig -p | grep -E 'libcuda|nvrtc|nvidia-ml'",
    "toolkits": "command -v nvcc ptxas; ls -ld /usr/local/cuda*; env | grep -E '^(CUDA|NVIDIA|LD_LIBRARY)'",
    "memory": "cat /proc/meminfo; cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max",
}
"""Commands for ``sh``, whose output, errors included, is kept in files of these names."""

DMESG: Final = "dmesg | grep -iE 'nvrm|xid'"


def look(job: Job) -> tuple[bool, list[str]]:
    """Runs the stage; returns whether nothing is missing, and facts about the machine."""
    facts = [f"Python {sys.version.split()[0]} at {sys.executable}, kernel {os.uname().release}"]
    if sys.version_info < LEAST_PYTHON:
        facts.append(f"this Python is too old; allowed: {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer")
    missing = packages.missing()
    if missing:
        others = " and ".join(packages.LEFT_TO_MACHINE)
        how = f"pip install; the kit of make gpu-kit has all but {others}: docs/cuda.md"
        facts.append(f"missing Python packages: {' '.join(missing)} ({how})")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists() and not any(Path(p, "Python.h").exists() for p in _include_folders()):
        facts.append(f"missing {header}: install Python's development files, or name their folder in CPATH")
    programs = [name for name in PROGRAMS if shutil.which(name) is None]
    facts += [f"missing program: {name}" for name in programs]
    facts += [f"closed to workers, which run as a different user: {path} (chmod o+rx)" for path in _closed_folders()]
    problems = len(facts) - 1
    keep_facts(job.out / "facts")
    probe = _probe(job)
    _keep(job, [*missing, *programs], probe)
    facts += [*job.held, *_smi_facts(), probe["line"]]
    return problems == 0 and not has_no_gpu(facts) and probe["found"], facts


def has_no_gpu(facts: Sequence[str]) -> bool:
    """True if `look` has found no GPU, so that the other stages are useless."""
    return any(fact.startswith(NO_GPU) for fact in facts)


def _include_folders() -> list[str]:
    return [folder for folder in os.environ.get("CPATH", "").split(os.pathsep) if folder]


def _closed_folders() -> list[Path]:
    """Folders in a worker's view of the host that it could not read. Their parents' modes do not matter."""
    if os.geteuid() != 0:
        return []  # then a worker is the same user
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    ours = (REPOSITORY / name for name in ("vhost_backend", "virtio_proto", "kernels"))
    folders = dict.fromkeys([Path(sys.prefix), Path(sys.base_prefix), *map(Path, named), *ours])
    return [path for path in folders if path.is_dir() and path != REPOSITORY and path.stat().st_mode & 0o5 != 0o5]


def keep_facts(folder: Path) -> None:
    """Writes the output of each command of `FACTS` to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in FACTS.items():
        (folder / name).write_text(_output(command))
    keep_kernel_log(folder / "dmesg")
    listed = sorted(f"{one.metadata['Name']} {one.version}" for one in metadata.distributions())
    (folder / "packages").write_text("\n".join(listed) + "\n")


def keep_kernel_log(path: Path) -> list[str]:
    """Writes the kernel log of NVIDIA's driver to a file; returns the lines about GPU errors (Xid)."""
    text = _output(DMESG)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return [line for line in text.splitlines() if "xid" in line.lower()]


def _output(command: str) -> str:
    try:
        done = subprocess.run(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=COMMAND_S,
        )
    except subprocess.TimeoutExpired:
        return f"{command}: did not end within {COMMAND_S} s\n"
    return done.stdout


def _smi_facts() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    text = _output(f"nvidia-smi --query-gpu={SMI_FIELDS} --format=csv,noheader")
    return [f"nvidia-smi: {line}" for line in text.strip().splitlines()]


def _probe(job: Job) -> dict[str, Any]:
    """Runs the engine's probe in a new process; returns its findings."""
    driver = ["--driver", str(job.driver)] if job.driver else []
    argv = [sys.executable, "-m", "vhost_backend.engines.cuda.probe", *driver]
    start = time.monotonic()
    code, text = job.run("probe.log", argv, min(PROBE_S, job.stage_left()))
    seconds = round(time.monotonic() - start, 2)
    found = _json_line(text)
    if found is None:
        ending = "did not end in time" if code is None else f"ended with {code}"
        return {"found": False, "seconds": seconds, "line": f"the probe for GPUs {ending}: {text.strip()[-400:]}"}
    verdict = "GPU" if found["devices"] else f"{NO_GPU} found"
    line = f"{verdict} (probed in {seconds} s): {json.dumps(found)[:600]}"
    return {"found": bool(found["devices"]), "seconds": seconds, "line": line, **found}


def _json_line(text: str) -> dict[str, Any] | None:
    """Finds the probe's answer in its output, around which drivers may print text."""
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _keep(job: Job, missing: Sequence[str], probe: dict[str, Any]) -> None:
    kept = {
        "missing": list(missing),
        "probe": probe,
        "nodes": devices.modes(),
        "held": job.held,
        "fake": job.driver is not None,
    }
    (job.out / evidence.LOOK).write_text(json.dumps(kept, indent=2) + "\n")
