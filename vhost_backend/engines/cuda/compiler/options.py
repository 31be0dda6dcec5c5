"""White list of the options that a guest may give, the same for NVRTC and nvcc.

Options of the CPU engine's compiler are allowed here, too (engines/cpu/compiler/options.cpp), so that a program needs
only one command line; those without a meaning for a GPU whose architecture the host knows are ignored.
"""

from __future__ import annotations

from .errors import CompileError

ALLOWED = (
    "-D, -U, -std=c++03..c++23, --use_fast_math, --ftz=, --prec-sqrt=, --prec-div=, --fmad=, --maxrregcount=, "
    "-lineinfo, -G, -w, --restrict, --extra-device-vectorization, --diag-suppress=, --ptxas-options=, "
    "--def-load-cache=, --def-store-cache=, --name-expression=, --lowered-names, --allow-undefined, --use-nvcc; for nvcc: --extended-lambda, "
    "--expt-relaxed-constexpr; --default-stream=; ignored: --opt-level, -arch, --gpu-architecture, -code, -gencode, "
    "-O0..-O3, -m64, -default-device, -rdc=, -dc, -g"
)

STANDARDS = ("c++03", "c++11", "c++14", "c++17", "c++20", "c++23")

# Spelling -> canonical name. nvcc accepts most options with one dash and with two.
_WITH_VALUE = {
    "-D": "define",
    "--define-macro": "define",
    "-U": "undefine",
    "--undefine-macro": "undefine",
    "-std": "std",
    "--std": "std",
    "--name-expression": "name",
    "-arch": "arch",
    "--gpu-architecture": "arch",
    "-maxrregcount": "maxrregcount",
    "--maxrregcount": "maxrregcount",
    "-ftz": "ftz",
    "--ftz": "ftz",
    "-prec-sqrt": "prec-sqrt",
    "--prec-sqrt": "prec-sqrt",
    "-prec-div": "prec-div",
    "--prec-div": "prec-div",
    "-fmad": "fmad",
    "--fmad": "fmad",
    "-Xptxas": "ptxas-options",
    "--ptxas-options": "ptxas-options",
    "-dlcm": "def-load-cache",
    "--def-load-cache": "def-load-cache",
    "-dscm": "def-store-cache",
    "--def-store-cache": "def-store-cache",
    "-diag-suppress": "diag-suppress",
    "--diag-suppress": "diag-suppress",
    "-rdc": "rdc",
    "--relocatable-device-code": "rdc",
    "-default-stream": "default-stream",
    "--default-stream": "default-stream",
    "-code": "ignored",
    "--gpu-code": "ignored",
    "-gencode": "ignored",
    "--generate-code": "ignored",
    "--optimize": "ignored",
    "--opt-level": "ignored",
}

_FLAGS = {
    "-use_fast_math": "use_fast_math",
    "--use_fast_math": "use_fast_math",
    "-lineinfo": "generate-line-info",
    "--generate-line-info": "generate-line-info",
    "-G": "device-debug",
    "--device-debug": "device-debug",
    "-w": "disable-warnings",
    "--disable-warnings": "disable-warnings",
    "-restrict": "restrict",
    "--restrict": "restrict",
    "-extra-device-vectorization": "extra-device-vectorization",
    "--extra-device-vectorization": "extra-device-vectorization",
    "-extended-lambda": "extended-lambda",
    "--extended-lambda": "extended-lambda",
    "-expt-extended-lambda": "extended-lambda",
    "--expt-extended-lambda": "extended-lambda",
    "-expt-relaxed-constexpr": "expt-relaxed-constexpr",
    "--expt-relaxed-constexpr": "expt-relaxed-constexpr",
    "--lowered-names": "lowered-names",
    "--allow-undefined": "allow-undefined",
    "--use-nvcc": "ignored",  # the daemon has used it to choose the tool
    "-default-device": "ignored",
    "-dc": "ignored",
    "--device-c": "ignored",
    "--device-as-default-execution-space": "ignored",
    "-O0": "ignored",
    "-O1": "ignored",
    "-O2": "ignored",
    "-O3": "ignored",
    "-m64": "ignored",
    "-g": "ignored",
}

_NVCC_ONLY = ("extended-lambda", "expt-relaxed-constexpr", "default-stream")
_CACHES = {"def-load-cache": ("ca", "cg", "cv", "cs"), "def-store-cache": ("wb", "cg", "cs", "wt")}
"""Values of ptxas's own options."""
_CHOICES = {
    **_CACHES,
    **dict.fromkeys(("ftz", "prec-sqrt", "prec-div", "fmad", "rdc"), ("true", "false")),
    "default-stream": ("legacy", "null", "per-thread"),
}
_PTXAS = ("-v", "--verbose", "-O0", "-O1", "-O2", "-O3", "--warn-on-spills", "--warn-on-local-memory-usage")
_PTXAS_PREFIXES = ("-dlcm=", "--def-load-cache=", "-dscm=", "--def-store-cache=", "-fmad=", "--fmad=")


class GuestOptions:
    """Parsed options of a guest."""

    def __init__(self) -> None:
        self.macros: list[tuple[str, str]] = []
        """``("D", "NAME=VALUE")`` or ``("U", "NAME")``, in the guest's order."""
        self.standard = "c++17"
        self.name_expressions: list[str] = []
        """Templates to instantiate."""
        self.lowered_names = False
        """The log shall say what the linker calls the instances."""
        self.allow_undefined = False
        """The program may lack functions and variables, which a link adds later."""
        self.architecture = ""
        """Value of ``-arch``."""
        self.common: list[str] = []
        """Options that are the same for NVRTC and nvcc."""
        self.nvcc: list[str] = []
        """Options for nvcc only."""

    def refined(self, arch: str) -> str:
        """`arch`, or ``sm_90a`` if the guest's ``-arch`` names that variant of the same architecture."""
        wanted = self.architecture.replace("compute_", "sm_", 1)
        return wanted if wanted in (f"{arch}a", f"{arch}f") else arch


def parse(words: list[str]) -> GuestOptions:
    """Parses options.

    :raise CompileError: an option is not on the list, or its value is wrong.
    """
    options = GuestOptions()
    position = 0
    while position < len(words):
        word = words[position]
        name, value = _split(word)
        position += 1
        if name in _FLAGS and value is None:
            _add_flag(options, _FLAGS[name])
        elif name in _WITH_VALUE:
            if value is None:
                if position == len(words):
                    raise CompileError(f"option '{name}' needs a value")
                value = words[position]
                position += 1
            _add_value(options, _WITH_VALUE[name], name, value)
        else:
            raise CompileError(f"option '{word}' is not allowed (allowed: {ALLOWED})")
    return options


def _split(word: str) -> tuple[str, str | None]:
    """Name of an option, and its value if that is part of the word."""
    if word[:2] in ("-D", "-U") and len(word) > 2:
        return word[:2], word[2:]
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _add_flag(options: GuestOptions, flag: str) -> None:
    if flag in _NVCC_ONLY:
        options.nvcc.append(f"--{flag}")
    elif flag == "lowered-names":
        options.lowered_names = True
    elif flag == "allow-undefined":
        options.allow_undefined = True
    elif flag != "ignored":
        options.common.append(f"--{flag}")


def _add_value(options: GuestOptions, kind: str, name: str, value: str) -> None:
    if kind in ("define", "undefine"):
        options.macros.append((kind[0].upper(), value))
    elif kind == "std":
        _require(value in STANDARDS, f"unknown language standard '{value}'", ", ".join(STANDARDS))
        options.standard = value
    elif kind == "name":
        options.name_expressions.append(value)
    elif kind == "arch":
        options.architecture = value
    elif kind == "maxrregcount":
        _require(value.isascii() and value.isdigit(), f"{name} is '{value}'", "a number of registers")
        options.common.append(f"--maxrregcount={value}")
    elif kind in _CHOICES:
        _require(value in _CHOICES[kind], f"{name} is '{value}'", ", ".join(_CHOICES[kind]))
        if kind != "rdc":
            option = f"--ptxas-options=--{kind}={value}" if kind in _CACHES else f"--{kind}={value}"
            (options.nvcc if kind in _NVCC_ONLY else options.common).append(option)
    elif kind == "diag-suppress":
        _require(value.replace(",", "").isalnum(), f"{name} is '{value}'", "numbers of warnings, with commas between")
        options.common.append(f"--diag-suppress={value}")
    elif kind == "ptxas-options":
        options.common += [f"--ptxas-options={word}" for word in value.split(",") if _is_ptxas_option(word)]


def _is_ptxas_option(word: str) -> bool:
    """True if an option is passed to ptxas. Others are ignored silently, as some of them name files."""
    return word in _PTXAS or (word.startswith(_PTXAS_PREFIXES) and word.partition("=")[2].isalnum())


def _require(condition: bool, problem: str, allowed: str) -> None:
    if not condition:
        raise CompileError(f"{problem} (allowed: {allowed})")
