"""Programs in a folder of public CUDA code: where each is, how it is built, and how it is run."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.compat import shrink

How = Literal["make", "target", "parboil", "cmake", "direct"]
"""Builds with the program's Makefile, with its target of a Makefile for several programs, as Parboil's driver does, with the
program's CMakeLists.txt, or with one call of mynvcc.
"""

SOURCES: Final = frozenset({".cu", ".cpp", ".cc", ".cxx", ".c"})
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
_MAIN: Final = re.compile(r"\bmain\s*\(")
_SKIPPED: Final = re.compile(r"^(\.|CMakeFiles$|build$)")
_CUDA_HEADER: Final = re.compile(r"^\s*#\s*include\s*[<\"](?:cuda|cublas|cufft|curand|cusparse|cusolver)", re.MULTILINE)
_HOLE: Final = re.compile(r"\bFIXME\b")
_LIBRARIES: Final = {
    "cublas": re.compile(r"#\s*include\s*[<\"]cublas(?:_v2|XT)?\.h"),
    "cublasLt": re.compile(r"#\s*include\s*[<\"]cublasLt\.h"),
    "cufft": re.compile(r"#\s*include\s*[<\"]cufft(?:Xt)?\.h"),
    "curand": re.compile(r"#\s*include\s*[<\"]curand\.h"),
    "cusparse": re.compile(r"#\s*include\s*[<\"]cusparse(?:_v2)?\.h"),
    "cusolver": re.compile(r"#\s*include\s*[<\"]cusolver\w+\.h"),
}
"""Libraries of host functions, by the headers that declare them."""
_OPENACC: Final = re.compile(r"^\s*#\s*pragma\s+acc\b", re.MULTILINE)
_OPENMP: Final = re.compile(r"#\s*include\s*[<\"]omp\.h|#\s*pragma\s+omp\b")


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a corpus."""

    name: str
    """Its path in the corpus."""
    folder: Path
    how: How
    sources: tuple[Path, ...] = ()
    """Files of a program without a build file, or the one of a target."""
    target: str = ""
    """Target of a Makefile for several programs, or the version of a benchmark of Parboil's."""


def makefile(folder: Path) -> Path | None:
    return next((folder / name for name in _MAKEFILES if (folder / name).is_file()), None)


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def _has_sources(folder: Path) -> bool:
    return any(path.suffix in SOURCES for path in folder.iterdir() if path.is_file())


def _has_cuda(folder: Path) -> bool:
    """True if it has device code, or links a library of CUDA's."""
    lists = folder / "CMakeLists.txt"
    if lists.is_file() and "CUDA::" in _text(lists):
        return True
    return any(name.endswith((".cu", ".cuh")) for _, _, names in os.walk(folder) for name in names)


def has_run_target(folder: Path) -> bool:
    found = makefile(folder)
    return found is not None and re.search(r"^run\s*:(?!=)", _text(found), re.MULTILINE) is not None


def _run_recipe(folder: Path) -> str:
    """Commands of a Makefile's target `run`."""
    found = makefile(folder)
    recipe = re.search(r"^run\s*:.*\n((?:\t.*\n?)*)", _text(found), re.MULTILINE) if found else None
    return recipe[1] if recipe else ""


def _how(folder: Path) -> How | None:
    """How the folder's one program is built; None if it holds several, or none."""
    if makefile(folder) and (_has_sources(folder) or (folder / "run").is_file() or has_run_target(folder)):
        return "make"
    lists = folder / "CMakeLists.txt"
    if lists.is_file():
        text = _text(lists)
        inner = any(
            (folder / name.strip('"') / "CMakeLists.txt").is_file()
            for name in re.findall(r"add_subdirectory\s*\(\s*([^\s)]+)", text)
        )
        if not inner and re.search(r"add_executable", text):
            return "cmake"
    return None


def find(root: Path) -> list[Program]:
    """All programs below `root`, by name. A single .cu file is a corpus of one."""
    if root.is_file():
        return [Program(root.stem, root.parent, "direct", (root,))]
    return sorted(_within(root, root), key=lambda program: program.name)


def _targets(folder: Path) -> list[Path]:
    """Sources of programs that the folder's Makefile names one by one, as its targets; none if it makes, or runs, one program."""
    found = makefile(folder)
    lines = _text(found).replace("\\\n", " ").splitlines() if found else []
    text = "\n".join(line for line in lines if not line.startswith("\t"))
    named = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in SOURCES
        and re.search(rf"(?<![\w.+/-]){re.escape(path.stem)}(?![\w.+/-])", text)
        and _MAIN.search(_text(path))
    ]
    run = [path for path in named if re.search(rf"\./{re.escape(path.stem)}\b", _run_recipe(folder))]
    is_one = len(named) < 2 or (has_run_target(folder) and len(run) < 2)
    return [] if is_one else named


def _uses_cuda(source: Path) -> bool:
    return source.suffix == ".cu" or _CUDA_HEADER.search(_text(source)) is not None


def is_parboil(root: Path) -> bool:
    return (root / "common" / "mk" / "cuda.mk").is_file() and (root / "benchmarks").is_dir()


def _parboil(root: Path) -> Iterator[Program]:
    """Versions of Parboil's benchmarks that are written in CUDA: each folder `benchmarks/NAME/src/VERSION`."""
    for source in sorted(root.glob("benchmarks/*/src/*")):
        found = makefile(source)
        if found and re.search(r"^LANGUAGE\s*=\s*cuda\s*$", _text(found), re.MULTILINE):
            folder = source.parent.parent
            yield Program(f"{folder.name}/{source.name}", folder, "parboil", target=source.name)


def _within(folder: Path, root: Path) -> Iterator[Program]:
    name = str(folder.relative_to(root))
    if is_parboil(folder):
        yield from _parboil(folder)
        return
    if targets := _targets(folder):
        for path in filter(_uses_cuda, targets):
            yield Program(str(path.relative_to(root).with_suffix("")), folder, "target", (path,), path.stem)
        return
    how = _how(folder)
    if how and (folder != root or how == "make"):
        if _has_cuda(folder):
            yield Program(folder.name if name == "." else name, folder, how)
        return
    yield from _plain(folder, root)
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and not inner.is_symlink() and not _SKIPPED.match(inner.name):
            yield from _within(inner, root)


def _plain(folder: Path, root: Path) -> Iterator[Program]:
    """Sources without a build file: each that has a main() is a program, with those beside it that have none."""
    sources = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in SOURCES)
    mains = [path for path in sources if _MAIN.search(_text(path))]
    others = tuple(path for path in sources if path not in mains)
    for path in mains:
        if path.suffix == ".cu" or any(other.suffix == ".cu" for other in others):
            yield Program(str(path.relative_to(root).with_suffix("")), folder, "direct", (path, *others))


def parboil_root(program: Program) -> Path:
    return program.folder.parent.parent


def parboil_program(program: Program) -> Path:
    """The program's file, where Parboil's driver has it built."""
    return Path("build", f"{program.target}_default", program.folder.name)


def parboil_assignments(program: Program, toolkit: Path) -> list[str]:
    """Assignments for make of Parboil's driver (its README.buildsystem tells them), and of the file that each user writes."""
    build = parboil_program(program).parent
    values = {
        "SRCDIR": f"src/{program.target}",
        "BUILDDIR": build,
        "BIN": parboil_program(program),
        "PARBOIL_ROOT": parboil_root(program),
        "PLATFORM": "default",
        "BUILD": program.target,
        "OPTIMIZATION": 2,
        "CUDA_PATH": toolkit,
        "CUDA_LIB_PATH": toolkit / "lib64",
        "CUDAHOME": toolkit,
    }
    return [f"{name}={value}" for name, value in values.items()]


def absent_submodule(program: Program, root: Path) -> str | None:
    """A submodule of the corpus within the program's folder that is empty: git fetches those apart."""
    modules = root / ".gitmodules"
    paths = re.findall(r"^\s*path\s*=\s*(\S+)", _text(modules), re.MULTILINE) if modules.is_file() else []
    for path in paths:
        folder = root / path
        is_empty = not folder.is_dir() or not any(folder.iterdir())
        if folder.is_relative_to(program.folder) and is_empty:
            return str(path)
    return None


def needs_openacc(program: Program) -> bool:
    """True if its loops are for a compiler with OpenACC: compilers without it leave them to the host."""
    return any(_OPENACC.search(_text(path)) for path in program.sources)


def is_exercise(program: Program) -> bool:
    """True if its source has holes, marked FIXME, that its reader is to fill."""
    return any(_HOLE.search(_text(path)) for path in program.sources)


def libraries(sources: Iterable[Path]) -> list[str]:
    """Options for nvcc by the headers that sources include, and by their use of OpenMP, where no build file says them."""
    text = "".join(map(_text, sources))
    found = [f"-l{name}" for name, header in _LIBRARIES.items() if header.search(text)]
    return [*found, *(["-Xcompiler", "-fopenmp"] if _OPENMP.search(text) else [])]


def absent_data(program: Program) -> str | None:
    """A data set that is not there: all of those of a benchmark of Parboil's; or one that the corpus keeps elsewhere (by
    DVC), of the program's folder or of one that its Makefile names.
    """
    if program.how == "parboil":
        data = Path("datasets", program.folder.name)
        return None if (parboil_root(program) / data).is_dir() else str(data)
    found = makefile(program.folder)
    named: list[str] = re.findall(r"(?:\.\./)+[\w.+/-]+", _text(found)) if found else []
    folders = [program.folder, *((program.folder / name).resolve() for name in named)]
    for folder in (path if path.is_dir() else path.parent for path in folders):
        for path in sorted(folder.glob("*.dvc")) if folder.is_dir() else ():
            if not path.with_suffix("").exists():
                return path.stem
    return None


def absent_input(program: Program) -> str | None:
    """A path among the arguments with which the program is run, by its file `run` or its Makefile, in a folder, where
    there is nothing.
    """
    words = run_script(program.folder) or _run_recipe(program.folder)
    for word in words.split():
        if (
            "/" in word
            and not word.startswith(("./", "-"))
            and "$" not in word
            and not (program.folder / word).exists()
        ):
            return word
    return None


def include_folders(folder: Path, root: Path) -> list[Path]:
    """Folders named as those of headers are, beside the program and beside the folders above it, up to `root`."""
    found = [folder]
    for above in (folder, *folder.parents):
        found += [
            above / name
            for name in ("include", "inc", "Common", "common", "utilities", "utils", "util")
            if (above / name).is_dir()
        ]
        if above == root:
            break
    return found


def nvcc_variables(folder: Path) -> list[str]:
    """Assignments for make that put `nvcc`, as PATH has it, in place of compilers that a Makefile names with a folder."""
    found = makefile(folder)
    if not found:
        return []
    names = re.findall(r"^\s*(\w+)\s*[:?]?=\s*\S*/nvcc\b", _text(found), re.MULTILINE)
    return [f"{name}=nvcc" for name in dict.fromkeys(names)]


def run_script(folder: Path) -> str | None:
    """First line of the file `run` (Rodinia's) that starts a program of the folder."""
    path = folder / "run"
    if not path.is_file():
        return None
    for line in _text(path).splitlines():
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if "/" in word and os.access(folder / word, os.X_OK) and (folder / word).is_file():
            return line.strip()
    return None


def executables(folder: Path) -> list[Path]:
    """ELF programs below `folder`, the newest first."""

    def is_program(path: Path) -> bool:
        if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK) or ".so" in path.name:
            return False
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"

    found = [path for path in folder.rglob("*") if "CMakeFiles" not in path.parts and is_program(path)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _launcher(program: Program, divisor: int, given: str | None) -> list[str]:
    """Assignment for make, by which the program gets other arguments than its Makefile's; none unless it is to."""
    if given is not None:
        words = ["--with", given]
    elif divisor:
        words = [str(divisor), ",".join(map(str, shrink.repeat_places(program.folder)))]
    else:
        return []
    return [f"LAUNCHER={shlex.join([sys.executable, shrink.__file__, *words])}"]


def command(program: Program, built_in: Path, *, divisor: int = 0, given: str | None = None) -> str | None:
    """Shell command that runs the program, in its folder, as its authors would; None if the build left nothing to run.

    If its Makefile has a LAUNCHER: with the arguments `given`, unless None; else, with a `divisor` other than 0, with repeat
    counts of 1 and other numbers divided by it.
    """
    if program.how == "make":
        if line := run_script(program.folder):
            return line
        if has_run_target(program.folder):
            launcher = _launcher(program, divisor, given)
            return shlex.join(["make", "-s", *nvcc_variables(program.folder), *launcher, "run"])
    if program.how in {"target", "parboil"}:
        path = parboil_program(program) if program.how == "parboil" else Path(program.target)
        return shlex.quote(f"./{path}") if (program.folder / path).is_file() else None
    found = executables(built_in)
    named = [path for path in found if path.stem == program.folder.name]
    return shlex.quote(str((named or found)[0])) if found else None
