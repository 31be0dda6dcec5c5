"""Command line: `python -m tests.compat FOLDER ...`."""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.compat import corpus, report, shrink
from tests.compat.corpus import Program
from tests.compat.frameworks import page as frameworks
from tests.compat.guest import Guest, daemon_guests, vm_guests
from tests.compat.process import CLOCK, Limits
from tests.compat.sample import Sample, kept, needs_mpi
from tests.compat.trial import Result, Trials
from tests.compat.verdict import Status

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLKIT: Final = ROOT / "guest_driver" / "cuda" / "build" / "toolkit"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat",
        description="Builds public CUDA programs unmodified with mynvcc, runs each with its default arguments on a "
        "virtual GPU, and says which pass and why others fail.",
        epilog="Folders may be laid out as cuda-samples (CMake), HeCBench and PolyBench (Makefiles with a target `run`), "
        "Rodinia (Makefile and a file `run`), Parboil, have Makefiles for several programs each, or hold plain .cu files. Programs are built in place: give a copy. A run that "
        "was interrupted goes on where it was; --again starts anew. A sample holds for the work folder's later runs, too, until "
        "`--sample 0`. Limits of time are seconds of processor time, the device's "
        f"included; by the clock, {CLOCK} times as many.",
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="folder of programs, or one .cu file")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "compat", help="logs and results [%(default)s]")
    parser.add_argument("--toolkit", type=Path, default=TOOLKIT, help="folder with bin/nvcc [%(default)s]")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose name matches")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="try N programs, drawn by the seed, none of which needs MPI"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample [%(default)s]")
    parser.add_argument("--device", choices=("daemon", "vm"), default="daemon", help="own daemon, or this VM's device")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="programs at a time [%(default)s]")
    parser.add_argument("--pes", type=int, default=2, help="processing elements of a device [%(default)s]")
    parser.add_argument("--lockstep", action="store_true", help="for programs that rely on lanes that go in step")
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB", help="memory of a device [%(default)s]")
    parser.add_argument("--host-memory", type=int, default=4096, metavar="MIB", help="of one process [%(default)s]")
    parser.add_argument("--build-time", type=float, default=300, metavar="S", help="limit of a build [%(default)s]")
    parser.add_argument("--run-time", type=float, default=120, metavar="S", help="limit of a run [%(default)s]")
    parser.add_argument("--build-only", action="store_true", help="run nothing, so that GPU parts stay uncompiled")
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="run with repeat counts of 1 and smaller data, as tests/compat/arguments.toml says or by itself",
    )
    parser.add_argument("--again", action="store_true", help="try again what has results")
    parser.add_argument("--retry", metavar="REGEX", help="try again programs whose cause or detail matches")
    parser.add_argument("--list", action="store_true", help="say what programs were found, and how each is built")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument(
        "--page",
        type=Path,
        help="write docs/compatibility.md to this file; corpora that it has and that are not given stay on it as they are",
    )
    parser.add_argument(
        "--amend",
        action="store_true",
        help="results on the page stay, too, of programs of the given corpora that have no new ones: a folder may lack programs",
    )
    options = parser.parse_args(words)
    if not options.folders and not options.page:
        parser.error("name a folder of programs, or a page to write anew with today's remarks")
    return options


class Session:
    """Trials of one corpus on several devices; each result is on disk before the next is shown."""

    def __init__(self, trials: Trials, guests: list[Guest], results: Path) -> None:
        self._trials = trials
        self._guests: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        for guest in guests:
            self._guests.put(guest)
        self._count = len(guests)
        self._results = results
        self._lock = threading.Lock()

    def _one(self, program: Program) -> Result:
        guest = self._guests.get()
        try:
            result = replace(self._trials.run(program, guest), day=time.strftime("%Y-%m-%d"))
        finally:
            self._guests.put(guest)
        with self._lock, self._results.open("a") as file:
            file.write(json.dumps(result.record()) + "\n")
        return result

    def run(self, programs: list[Program]) -> None:
        with ThreadPoolExecutor(self._count) as pool:
            pending = [pool.submit(self._one, program) for program in programs]
            try:
                for number, future in enumerate(as_completed(pending), 1):
                    result = future.result()
                    why = ": ".join(filter(None, (result.cause, result.detail)))
                    seconds = result.build_seconds + result.run_seconds
                    print(
                        f"[{number}/{len(programs)}] {result.name}: {result.status}, {seconds:.1f} s  {why}", flush=True
                    )
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def corpus_name(folder: Path) -> str:
    """Name for the report: the folder's, without what copies add."""
    return folder.resolve().stem


def known(results: Path, programs: list[Program], options: argparse.Namespace) -> dict[str, Result]:
    """Results of earlier runs that are still to count, by program; the last one of each."""
    found = {} if options.again else {result.name: result for result in report.read(results)}
    names = {program.name for program in programs}

    def counts(result: Result) -> bool:
        repeated = options.retry and re.search(options.retry, f"{result.cause} {result.detail}")
        is_left = result.status is Status.BUILDS and not options.build_only
        return result.name in names and not repeated and not is_left

    return {name: result for name, result in found.items() if counts(result)}


def try_corpus(folder: Path, guests: list[Guest], options: argparse.Namespace) -> report.Corpus:
    """Tries what has no result yet, and returns all results."""
    name = corpus_name(folder)
    root = folder.resolve() if folder.is_dir() else folder.resolve().parent
    work = options.work.resolve() / name
    work.mkdir(parents=True, exist_ok=True)
    results = work / "results.jsonl"
    programs = corpus.find(folder.resolve())
    sample = kept(work / "sample.json", None if options.sample is None else Sample(options.sample, options.seed))
    label = ""
    if sample:
        able = [program for program in programs if not needs_mpi(program)]
        programs = sample.draw(able)
        label = f"sample of {len(programs)} of {len(able)}, seed {sample.seed}"
    done = known(results, programs, options)
    left = [program for program in programs if program.name not in done and re.search(options.only, program.name)]
    print(f"{name}: {len(programs)} programs, {len(done)} have results, {len(left)} to try", flush=True)
    trials = Trials(
        root,
        work,
        options.toolkit.resolve(),
        Limits(options.build_time, options.host_memory << 20),
        Limits(options.run_time, options.host_memory << 20),
        options.build_only,
        options.lockstep,
        options.shrink,
        shrink.given(name),
    )
    Session(trials, guests, results).run(left)
    fresh = {result.name: result for result in report.read(results)} if left else {}
    done |= {program.name: fresh[program.name] for program in left}
    day = max((result.day for result in done.values()), default="")
    return report.Corpus(name, tuple(done[key] for key in sorted(done)), len(programs) - len(done), label, day)


def tried(options: argparse.Namespace) -> list[report.Corpus]:
    """Results of all folders, on devices of the kind that was asked for."""
    host = options.work.resolve() / f"host-{os.getpid()}"
    host.mkdir(parents=True, exist_ok=True)
    devices: AbstractContextManager[list[Guest]] = (
        vm_guests(options.jobs)
        if options.device == "vm"
        else daemon_guests(host, options.jobs, options.memory, options.pes, is_lockstep=options.lockstep)
    )
    with devices as guests:
        return [try_corpus(folder, guests, options) for folder in options.folders]


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    if options.list:
        for folder in options.folders:
            for program in corpus.find(folder.resolve()):
                print(f"{program.how:7}  {program.name}")
        return 0
    if not (options.toolkit / "bin" / "nvcc").exists():
        print(
            f"{options.toolkit} has no bin/nvcc: run `make build`, or name another folder with --toolkit",
            file=sys.stderr,
        )
        return 2
    corpora = tried(options) if options.folders else []
    for found in corpora:
        print(f"\n{found.name}\n{report.table(found.results)}")
    if options.json:
        options.json.write_text(report.as_json(corpora))
    if options.page:
        engine = (
            "this VM's device" if options.device == "vm" else f"the software GPU with {options.pes} processing elements"
        )
        before = options.page.read_text() if options.page.exists() else ""
        kept = report.read_page(before)
        if options.amend:
            earlier = {found.name: found for found in kept}
            corpora = [report.amended(found, earlier.get(found.name, found)) for found in corpora]
        text = report.page(report.composed(corpora, kept), engine)
        options.page.write_text(text + frameworks.kept(before))
    good = set(Status) - {Status.FAILED}
    return 0 if all(result.status in good for found in corpora for result in found.results) else 1


if __name__ == "__main__":
    sys.exit(main())
