"""Command line of the compile program::

    vgc-cudacc TOOL [--library F] [--nvcc F] [--nvlink F] [--device-runtime F] [--host-compiler F] [--ptxas F]
               [--include DIR]...
               [--include-nvcc DIR]... [--include-later DIR]... [--hostless REASON] [--hooks HEADER]
               [--unhooked REASON] [--unheard HEADER] [--arch sm_NN] [--input FILE] [--output FILE] [-- guest options]

with TOOL ``nvrtc``, ``nvcc`` (CUDA source), ``units`` (several CUDA sources), ``ptxas`` (PTX), ``cubin``, ``fatbin`` or
``describe``, which prints NVRTC's version and architectures. `--hooks`: header of the control system's hooks, which the
program shall have; `--unhooked`: reason why it cannot have them; `--unheard`: header that ``<vgc.h>`` needs in a program
without hooks; `--device-runtime`: library by which kernels launch kernels; `--include-nvcc`: folder of headers for nvcc, which has its own, and `--include-later` one that it searches
after these. NVRTC gives sources that it refuses to nvcc if `--nvcc` is there; `--hostless`: reason why it is not. Messages
go to standard output, the image to ``--output``: a cubin and its `trailer`. A tool needs the options that it uses.
"""

from __future__ import annotations

import os

from ...containers import headers
from . import cubin, options, references, tools, trailer, votes
from .errors import CompileError, ToolError

_TEXTURE_REFERENCE = b"texture<"
_GUEST = "vgc-guest"
"""Folder that stands for the root of the guest's file system."""
UNSEEN = "vgc-cudacc: note: the control system will not see this program: "


class CommandLine:
    """Options of the compile program and, after ``--``, of the guest."""

    def __init__(self, words: list[str]) -> None:
        end = words.index("--") if "--" in words else len(words)
        own, self._guest = words[:end], words[end + 1 :]
        self.tool = own[0]
        self.include_dirs: list[str] = []
        self.nvcc_dirs: list[str] = []
        self.later_dirs: list[str] = []
        self.guest_dirs: list[str] = []
        """Folders of the guest's own headers, which are searched first."""
        self._values: dict[str, str] = {}
        for option, value in zip(own[1::2], own[2::2], strict=True):
            if option == "--include":
                self.include_dirs.append(value)
            elif option == "--include-nvcc":
                self.nvcc_dirs.append(value)
            elif option == "--include-later":
                self.later_dirs.append(value)
            else:
                self._values[option.removeprefix("--")] = value

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "")

    def guest_options(self, *further: str) -> options.GuestOptions:
        """Parses the guest's options, and `further` ones of a source behind them.

        :raise CompileError: an option is not allowed.
        """
        return options.parse([*self._guest, *further])

    def source(self) -> bytes:
        """Bytes of the guest's program."""
        return tools.read(self["input"])

    def folders(self) -> list[str]:
        """Folders in which NVRTC looks for headers."""
        return [*self.guest_dirs, *self.include_dirs]

    def rewrite(self) -> None:
        """Prepares the file that is compiled: see `prepared`."""
        source = self.source()
        text = self.prepared(source)
        if text != source:
            tools.write(self["input"], text)

    def prepared(self, source: bytes) -> bytes:
        """Puts the guest's headers, which stand before its source, into files, and brings back in all texts what CUDA no
        longer has: references as variables, and votes.

        :raise CompileError: the list of headers is malformed.
        """
        found, source = headers.split(source)
        if found.folders or found.files:
            self.guest_dirs = [_GUEST + folder for folder in found.folders]
        for folder in self.guest_dirs:
            tools.make_folder(folder)
        for path, text in found.files.items():
            tools.make_folder(os.path.dirname(_GUEST + path))  # noqa: PTH120  pathlib takes 8 ms to load
            tools.write(_GUEST + path, _with_old_forms(text))
        return _with_old_forms(source)

    def without_folders(self, log: str) -> str:
        """Removes the host's folders from names of headers in a log."""
        for folder in sorted([*self.include_dirs, *self.nvcc_dirs, *self.later_dirs], key=len, reverse=True):
            log = log.replace(f"{folder}/", "")
        return log.replace(f"{_GUEST}/", "/") if self.guest_dirs else log


def _with_old_forms(text: bytes) -> bytes:
    """A text with what CUDA no longer has, in forms that its compilers know."""
    return votes.renamed(references.rewritten(text))


def describe(line: CommandLine) -> bytes:
    """Prints NVRTC's version and architectures."""
    from .nvrtc import Nvrtc

    say(Nvrtc(line["library"]).describe())
    return b""


def source_by_nvrtc(line: CommandLine) -> bytes:
    """Compiles CUDA source to a cubin with NVRTC, in this process; with nvcc, if NVRTC finds errors and nvcc is there:
    host code has no other sign.
    """
    line.rewrite()
    try:
        return _by_nvrtc(line)
    except ToolError as error:
        if line["nvcc"]:
            return source_by_nvcc(line)
        if line["hostless"]:
            note = f"vgc-cudacc: note: if this is host code, it needs nvcc, and {line['hostless']}\n"
            raise ToolError(f"{error}{note}") from error
        raise


def _by_nvrtc(line: CommandLine) -> bytes:
    from . import hooks, nvrtc

    guest = line.guest_options()
    arch = guest.refined(line["arch"])
    library = nvrtc.Nvrtc(line["library"])
    source = (line.source(), line["input"])
    if guest.allow_undefined:
        words = [*nvrtc.arguments(guest, arch, line.folders(), line["unheard"]), "--relocatable-device-code=true"]
        text, log = library.ptx(*source, words, guest.name_expressions)
        log += library.lowered(guest.name_expressions) if guest.lowered_names else ""
        say(line.without_folders(log))
        return _without_link(line, text, guest)
    if line["hooks"]:
        words = nvrtc.arguments(guest, arch, line.folders(), line["hooks"]) + hooks.wanted_macros(source[0])
        text, log = library.ptx(*source, words, guest.name_expressions)
        log += library.lowered(guest.name_expressions) if guest.lowered_names else ""
        image = with_hooks(line, text, guest)
        if image:
            say(line.without_folders(log))
            return trailer.of_source(image, [text])
    words = nvrtc.arguments(guest, arch, line.folders()) + pre_included(line, source[0])
    image, text, log = library.compile(*source, words, guest.name_expressions)
    log += library.lowered(guest.name_expressions) if guest.lowered_names else ""
    say(line.without_folders(log))
    if not guest.lowered_names:  # which NVRTC asks for, to whom an empty program is one, too
        cubin.check_content(image)
    return trailer.of_source(image, [text])


def source_by_nvcc(line: CommandLine) -> bytes:
    """Compiles CUDA source to a cubin with nvcc and the host's C++ compiler."""
    line.rewrite()
    try:
        return _by_nvcc(line)
    except ToolError as error:
        raise ToolError(f"{error}{_removed(line.source())}") from error


def _removed(source: bytes) -> str:
    """Note on what a source uses that NVIDIA's compilers no longer have, in a form that could not be brought back."""
    if _TEXTURE_REFERENCE not in source.replace(b" ", b"") or references.is_rewritten(source):
        return ""
    return (
        "vgc-cudacc: note: NVIDIA's compilers have no texture references (texture<...>) since CUDA 12; texture objects"
        " replace them\n"
    )


def _by_nvcc(line: CommandLine) -> bytes:
    from . import hooks, tools_nvcc

    guest = line.guest_options()
    nvcc = tools_nvcc.Nvcc(line, guest.refined(line["arch"]))
    source = line.source()
    if guest.allow_undefined:
        text = nvcc.ptx(guest, source, line["input"], line["unheard"], ["-rdc=true"])
        return _without_link(line, text, guest)
    if line["hooks"]:
        text = nvcc.ptx(guest, source, line["input"], line["hooks"], hooks.wanted_macros(source))
        image = with_hooks(line, text, guest)
        if image:
            return trailer.of_source(image, [text])
    image, text = nvcc.cubin(guest, source, line["input"], pre_included(line, source))
    cubin.check_content(image)
    return trailer.of_source(image, [text])


def _without_link(line: CommandLine, text: bytes, guest: options.GuestOptions) -> bytes:
    """Assembles PTX of relocatable code to a cubin that loads although it lacks what a link will add."""
    from . import undefined

    if not line["ptxas"]:
        raise CompileError("code that is to be linked needs ptxas, and this host has none for its compiler")
    return trailer.of_source(tools.ptxas(line["ptxas"], line["arch"], undefined.defined(text), guest), [text])


def several_sources(line: CommandLine) -> bytes:
    """Compiles each unit of a program of several with nvcc or ptxas, and links them with nvlink."""
    from . import units

    program = units.linked(line, pre_included(line, b"vgc"))
    return trailer.of_units(program.image, program.texts, program.names, has_source=program.has_source)


def pre_included(line: CommandLine, source: bytes) -> list[str]:
    """Arguments for a source without hooks: the header for ``<vgc.h>``, if needed. Logs the reason, if any."""
    if line["unhooked"]:
        say(UNSEEN + line["unhooked"])
    return [f"--pre-include={line['unheard']}"] if b"vgc" in source else []


def with_hooks(line: CommandLine, text: bytes, guest: options.GuestOptions) -> bytes:
    """Assembles a compiler's PTX to a cubin, with the control system's hooks in its kernels.

    Empty: the program has no kernels, or cannot be assembled with hooks (logged), and must be compiled without.
    """
    from . import hooks, registers

    without = hooks.without(text)
    if without is None:
        return b""
    try:
        counts: dict[str, int] = {}
        if not hooks.is_small(without):
            counts = registers.of_kernels(tools.ptxas(line["ptxas"], line["arch"], without, guest))
        hooked = hooks.hooked(without, counts)
        return tools.ptxas(line["ptxas"], line["arch"], without if hooked is None else hooked, guest)
    except ToolError:
        say(UNSEEN + "it cannot be assembled with hooks")
        return b""


def ptx(line: CommandLine) -> bytes:
    """Assembles the guest's PTX to a cubin."""
    return assembled(line, line.source(), line.guest_options())


def assembled(line: CommandLine, text: bytes, guest: options.GuestOptions) -> bytes:
    """Assembles PTX to a cubin with a trailer.

    :raise CompileError: this host has no ptxas, or ptxas refuses the PTX.
    """
    if not line["ptxas"]:
        raise CompileError("this program is PTX for this device, and the host has no ptxas to assemble it")
    return trailer.with_kinds(tools.ptxas(line["ptxas"], line["arch"], text, guest), text)


def ready_cubin(line: CommandLine) -> bytes:
    """Checks a cubin that the guest has made."""
    line.guest_options()
    image = line.source()
    cubin.check_runs_on(image, line["arch"])
    return trailer.with_kinds(image, b"")


def fat_binary(line: CommandLine) -> bytes:
    """Makes a cubin from the best program of a fat binary."""
    from . import fatbin

    guest = line.guest_options()
    is_ptx, program = fatbin.take(line.source(), line["arch"])
    if is_ptx:
        return assembled(line, program, guest)
    cubin.check_runs_on(program, line["arch"])
    return trailer.with_kinds(program, b"")


TOOLS = {
    "describe": describe,
    "nvrtc": source_by_nvrtc,
    "nvcc": source_by_nvcc,
    "units": several_sources,
    "ptxas": ptx,
    "cubin": ready_cubin,
    "fatbin": fat_binary,
}


def main(words: list[str]) -> int:
    """Compiles; returns the exit status."""
    line = CommandLine(words)
    try:
        image = TOOLS[line.tool](line)
        if image:
            tools.write(line["output"], image)
    except ToolError as error:
        say(line.without_folders(str(error)))
        return 1
    except CompileError as error:
        say(f"vgc-cudacc: error: {error}")
        return 1
    except (OSError, MemoryError) as error:
        say(f"vgc-cudacc: error: {error or 'out of memory'}")
        return 1
    return 0


def say(text: str) -> None:
    """Writes `text` to the log, on lines of its own."""
    if text:
        os.write(1, (text.rstrip("\n") + "\n").encode(errors="replace"))
