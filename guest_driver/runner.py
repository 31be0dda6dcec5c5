"""``vgc run``: runs one kernel of a source file, with arguments from the command line."""

from __future__ import annotations

import argparse
import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from guest_driver.arguments import In, Param, check_buffer, pack
from guest_driver.device import Device
from guest_driver.job import Timing
from guest_driver.memory import DeviceArray
from guest_driver.program import Unit
from guest_driver.shadow import ShadowArray, ShadowDevice, ShadowFunction
from guest_driver.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from guest_driver.program import Function, Program
    from guest_driver.shadow import ShadowProgram

HELP: Final = """Compiles FILE on the host, copies inputs in, runs the kernel, copies outputs out. Several files are linked.

Arguments (--arg, one per parameter):
  int:5  uint:5  long:5  float:2.5  double:2.5      a value, of the parameter's own type
  in:a.npy            an array that the kernel reads
  inout:a.npy:b.npy   an array that it changes; the result goes into b.npy
  out:float32:1024:b.npy   a new array of zeros (1024, or 32x32); the result goes into b.npy
  rand:float32:1024   an array of random numbers
Without the last file name only a summary of an output is printed.
"""

PROGRAM_KINDS: Final = {".ptx": "ptx", ".cubin": "cubin", ".fatbin": "fatbin"}
"""Program kinds by file suffix; other files are CUDA source, or PTX by their first directive."""

_PTX: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/)*\.version\b", re.DOTALL)

CHECKS: Final = ("memcheck", "initcheck", "racecheck", "leak-check", "lockstep", "profile")
"""Flags of the command line that are options of the software GPU's compiler."""

SCALARS: Final = {"int": "int32", "uint": "uint32", "long": "int64", "float": "float32", "double": "float64"}


def extents(text: str) -> tuple[int, ...]:
    """Parses a grid or a block of the command line."""
    numbers = tuple(int(number) for number in text.split(","))
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: one to three positive numbers")
    return numbers


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument of the kernel: a value, or an array and what is done with its result."""

    text: str
    value: Any
    is_output: bool = False
    save_to: Path | None = None


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(extent) for extent in text.split("x"))


def parse(spec: str) -> Argument:
    """Parses an argument of the command line.

    :raise ValueError: it is malformed, or its file cannot be read; the text names it.
    """
    try:
        return _parse(spec)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise ValueError(f"--arg {spec}: {error}; `vgc run --help` lists what is allowed") from None


def _parse(spec: str) -> Argument:
    import numpy as np  # here, because the rest of `vgc` works without numpy

    kind, _, rest = spec.partition(":")
    words = rest.split(":")
    match kind, words:
        case ("in", [source]):
            return Argument(spec, np.load(source))
        case ("inout", [source, *target]) if len(target) <= 1:
            return Argument(spec, np.load(source), is_output=True, save_to=Path(target[0]) if target else None)
        case ("out", [dtype, shape, *target]) if len(target) <= 1:
            zeros = np.zeros(_shape(shape), dtype)
            return Argument(spec, zeros, is_output=True, save_to=Path(target[0]) if target else None)
        case ("rand", [dtype, shape]):
            numbers = np.random.default_rng(0).random(_shape(shape))
            return Argument(spec, (numbers if np.dtype(dtype).kind == "f" else numbers * 100).astype(dtype))
        case (_, [number]) if kind in SCALARS:
            return Argument(spec, np.dtype(SCALARS[kind]).type(number))
    raise ValueError("not understood")


def _fits(value: Any, param: Param) -> bool:
    import numpy as np

    try:
        if isinstance(value, np.ndarray):  # is passed as a device array
            check_buffer(In(value), param)
        else:
            pack(value, param)
    except TypeError:
        return False
    return True


def _allowed(param: Param) -> str:
    import numpy as np

    forms = [f"{name}:N" for name, dtype in SCALARS.items() if _fits(np.dtype(dtype).type(), param)]
    if _fits(np.empty(0), param):
        forms += ["in", "inout", "out", "rand"]
    return ", ".join(forms) or "none: use the Python binding"


def check(kernel: Function | ShadowFunction, given: Sequence[Argument], words: Sequence[str] = ()) -> None:
    """Checks that arguments fit the kernel's parameters. Errors name them by `words`, by default ``--arg SPEC``.

    :raise ValueError: one does not; the text names argument, parameter and what is allowed.
    """
    if len(given) != len(kernel.params):
        raise ValueError(f"{kernel.name} takes {len(kernel.params)} arguments, not {len(given)}")
    words = words or [f"--arg {argument.text}" for argument in given]
    for index, (argument, param) in enumerate(zip(given, kernel.params, strict=True)):
        if not _fits(argument.value, param):
            raise ValueError(
                f"{words[index]}: parameter {index} of {kernel.name} is {param}; allowed: {_allowed(param)}"
            )


def save(file: Path, array: NDArray[Any]) -> None:
    """Writes an array to a file of exactly this name; numpy would append an ending."""
    import numpy as np

    with file.open("wb") as stream:
        np.save(stream, array)


def summary(name: str, array: NDArray[Any], saved_to: Path | None) -> str:
    """Describes an output in a line."""
    where = f", saved to {saved_to}" if saved_to else ""
    if array.size == 0:
        return f"{name}: empty{where}"
    if array.dtype.kind not in "fiu":
        return f"{name}: {array.dtype} {array.shape}{where}"
    edges = ", ".join(f"{edge} {getattr(array, edge)():.6g}" for edge in ("min", "mean", "max"))
    return f"{name}: {array.dtype} {array.shape}, {edges}{where}"


def _to_device(device: Device | ShadowDevice, argument: Argument) -> Any:
    import numpy as np

    if not isinstance(argument.value, np.ndarray):
        return argument.value
    if isinstance(device, ShadowDevice):
        return device.to_device(argument.value, f"--arg {argument.text}")
    return device.to_device(argument.value)


def _program(device: Device | ShadowDevice, arguments: argparse.Namespace) -> Program | ShadowProgram:
    """Compiles the files that the command line names; several are units of one program.

    :raise ValueError: there are several files, and one is a cubin.
    """
    lines = ("-lineinfo",) if arguments.lineinfo else ()
    options = [
        *arguments.option,
        *lines,
        *(f"--{name}" for name in CHECKS if getattr(arguments, name.replace("-", "_"))),
    ]
    kinds = [kind_of(file) for file in arguments.file]
    if len(kinds) == 1:
        return device.compile(named_content(arguments.file[0], kinds[0]), options, kinds[0])
    for file, kind in zip(arguments.file, kinds, strict=True):
        if kind == "cubin":
            raise ValueError(f"{file}: a cubin cannot be linked with other files; allowed: CUDA C, PTX, fatbins")
    return device.link([Unit(str(file), file.read_bytes()) for file in arguments.file], options)


def kind_of(file: Path) -> str:
    """Kind of a program's file."""
    kind = PROGRAM_KINDS.get(file.suffix)
    return kind or ("ptx" if _PTX.match(file.read_bytes()) else "cuda")


def named_content(file: Path, kind: str) -> bytes:
    """Content of a program's file; CUDA C and PTX have a line before it by which messages name the file."""
    content = file.read_bytes()
    is_odd = bool(set('"\\\n') & set(str(file)))  # ptxas takes no escapes there
    if kind not in ("cuda", "ptx") or (kind == "ptx" and is_odd):
        return content
    name = str(file).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{name}"\n'.encode(errors="replace") + content.removeprefix(codecs.BOM_UTF8)


def sources_of(arguments: argparse.Namespace) -> dict[str, tuple[str, list[str]]]:
    """Names and lines of the sources that the command line names, by the names under which the host compiles them."""
    return {str(file): (file.name, file.read_text(errors="replace").splitlines()) for file in arguments.file}


def run(device: Device | ShadowDevice, arguments: argparse.Namespace) -> str:
    """Runs the kernel that the command line names; returns a report for the terminal.

    :raise errors.ShadowMismatch: the two devices disagree on an array; no output is saved then.
    """
    parsed = [parse(spec) for spec in arguments.arg]
    steps = Steps()
    program = steps.timed("compile", lambda: _program(device, arguments), "on the host")
    kernel = program[arguments.kernel]
    check(kernel, parsed)

    def copy_in() -> list[Any]:
        return [_to_device(device, argument) for argument in parsed]

    values = steps.timed("copy in", copy_in)
    shadowed = isinstance(device, ShadowDevice)
    where = f"on {' and '.join(device.sides.names) if isinstance(device, ShadowDevice) else device.info().engine_name}"
    timing = steps.timed(
        "launch",
        lambda: kernel.launch(
            arguments.grid,
            arguments.block,
            *values,
            shared_bytes=arguments.shared,
            cooperative=arguments.cooperative,
        ),
        where,
    )
    if isinstance(device, ShadowDevice):
        steps.timed("compare", device.check)
    outputs = steps.timed(
        "copy out",
        lambda: [value.get() if isinstance(value, DeviceArray | ShadowArray) else None for value in values],
    )
    lines = [program.log.rstrip()] if program.log else []
    for argument, array in zip(parsed, outputs, strict=True):
        if argument.is_output and array is not None:
            if argument.save_to is not None:
                save(argument.save_to, array)
            lines.append(
                summary(argument.text, array, argument.save_to) + (", same on both engines" if shadowed else "")
            )
    if arguments.leak_check:
        program.unload()  # which prints them
    assert isinstance(timing, Timing)
    return "\n".join([*lines, str(steps), f"the kernel itself: {timing.exec_ns / 1e6:.3f} ms"])
