"""``vgc call``: calls a built-in function, or one that is registered for the VM, with arrays in files."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from guest_driver import runner
from guest_driver.arguments import In, InOut
from guest_driver.call_options import Given, value_of
from guest_driver.device import Device
from guest_driver.errors import InvalidArgument, NotFound
from guest_driver.functions.groups import BuiltinFunctions
from guest_driver.functions.names import SUFFIX, TYPES, methods_of
from guest_driver.memory import DeviceArray
from guest_driver.steps import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from guest_driver.program import Function

HELP: Final = """Calls a function by name, in one request: inputs go there, results come back.

Built-in functions (docs/functions.md; `vgc functions` lists them) take arrays in order, and options by name. Shapes
and types are those of the arrays:
  vgc call blas.gemm --in a.npy --in b.npy --out c.npy
  vgc call blas.axpy --set alpha=2 --in x.npy --inout y.npy
  vgc call math.power --in a.npy --set b=3 --out cubes.npy
  vgc call reduce.sum_f32 --in a.npy --set axis=0 --out sums.npy
  vgc call fft.rfft --in a.npy --set norm=ortho --out spectrum.npy
  vgc call random.normal --set shape=1000x3 --set seed=1 --out numbers.npy

Functions that are registered for the VM (vgc register) take arguments in the order of their parameters, and blocks and
threads. --arg takes a number, or a form of `vgc run --help`:
  vgc call saxpy --grid 4 --block 256 --arg 1000 --arg 2.0 --in x.npy --inout y.npy
  vgc call fill --block 64 --arg out:float32:64:filled.npy --arg 1.5
"""

GROUPS: Final = tuple(
    name for name, value in vars(BuiltinFunctions).items() if isinstance(value, property) and name[0] != "_"
)
"""Groups of built-in functions, which stand before the dot of a name."""

ARRAYS: Final = ("Array", "Changed", "Operand")
"""Begins of the annotations of parameters that are arrays."""


class InOrder(argparse.Action):
    """Collects arguments of several options in ``given``, in the order of the command line."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        assert option is not None
        namespace.given = [*namespace.given, Given(option.lstrip("-"), values)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.set_defaults(given=[])
    parser.add_argument("name", metavar="NAME", help="function, such as blas.gemm or blas.gemm_f32")
    order: Mapping[str, Any] = {"action": InOrder, "default": argparse.SUPPRESS}
    parser.add_argument("--in", metavar="FILE", help="array that is read (.npy)", **order)
    parser.add_argument("--inout", metavar="FILE", help="array that is changed, and so is its file", **order)
    parser.add_argument("--out", metavar="FILE", help="file for a result of a built-in function, in order", **order)
    parser.add_argument("--set", metavar="KEY=VALUE", help="option of a built-in function, such as axis=0", **order)
    parser.add_argument("--arg", metavar="SPEC", help="argument of a registered function", **order)
    parser.add_argument("--grid", type=runner.extents, metavar="X[,Y[,Z]]", help="blocks (default: 1)")
    parser.add_argument("--block", type=runner.extents, metavar="X[,Y[,Z]]", help="threads of a block (default: 1)")


def run(device: Device, arguments: argparse.Namespace) -> str:
    """Calls the function that the command line names; returns a report for the terminal.

    :raise ValueError: an argument cannot be understood, or does not fit; the text says what is allowed.
    """
    if arguments.name.partition(".")[0] in GROUPS and "." in arguments.name:
        if arguments.grid is not None or arguments.block is not None:
            raise InvalidArgument(f"--grid, --block: {arguments.name} is a built-in function, which takes neither")
        return _call_builtin(device, arguments.name, arguments.given)
    return _call_registered(device, arguments)


# ---- built-in functions --------------------------------------------------------------------------


def _call_builtin(device: Device, name: str, given: Sequence[Given]) -> str:

    _check_options(name, "a built-in function", given, ("in", "inout", "out", "set"))
    method = _method(device, name)
    files = _result_files(name, method, given)
    arrays = [(one, _load(one)) for one in given if one.option in ("in", "inout")]
    values, origins = _bind(name, method, arrays, [one for one in given if one.option == "set"])
    steps = Steps()
    results = steps.timed("call", lambda: _run(name, method, values, origins), f"on {device.info().engine_name}")
    for one, array in arrays:
        if one.option == "inout":
            runner.save(Path(one.text), array)
    lines = []
    for number, array in enumerate(results):
        file = files[number] if number < len(files) else None
        if file is not None:
            runner.save(file, array)
        lines.append(runner.summary(f"result {number + 1}", array, file))
    return "\n".join([*lines, str(steps)])


def _result_files(name: str, method: Callable[..., Any], given: Sequence[Given]) -> list[Path]:
    """Files for results in order.

    :raise errors.InvalidArgument: there are more than results, or one cannot be written.
    """
    outputs = [one for one in given if one.option == "out"]
    count = 2 if str(inspect.signature(method).return_annotation).startswith("tuple") else 1
    if len(outputs) > count:
        raise InvalidArgument(f"{outputs[count]}: {name} has {count} results; allowed: a file for each")
    for one in outputs:
        if not Path(one.text).parent.is_dir() or Path(one.text).is_dir():
            raise InvalidArgument(f"{one}: no file can be written there; allowed: files in folders that exist")
    if len(set(outputs)) < len(outputs):
        raise InvalidArgument(f"{outputs[0]}: given twice; allowed: a file for each result")
    return [Path(one.text) for one in outputs]


def _run(
    name: str, method: Callable[..., Any], values: Mapping[str, Any], origins: Mapping[str, Given]
) -> list[NDArray[Any]]:
    """Calls the method. Errors name the option of the parameter that they begin with, or the function.

    :raise errors.InvalidArgument: the method refuses an argument.
    """
    try:
        return list(_results(method(**values)))
    except (ValueError, TypeError) as error:
        begin = re.match(r"\w*", str(error))
        origin = origins.get(begin.group()) if begin else None
        raise InvalidArgument(f"{origin or name}: {error}") from None


def _methods(device: Device, group: str) -> dict[str, Callable[..., Any]]:
    """Methods of a group that take arrays in order and options by name."""
    functions = getattr(device, group)
    methods = {f"{group}.{name}": getattr(functions, name) for name in dir(functions) if name[0] != "_"}
    return {name: method for name, method in methods.items() if all(map(_can_be_given, _params(method).values()))}


def _method(device: Device, name: str) -> Callable[..., Any]:
    """Method of a built-in function.

    :raise errors.InvalidArgument: its group has no such function.
    """
    methods = _methods(device, name.partition(".")[0])
    method = methods.get(methods_of(name)[0])
    if method is None:
        raise InvalidArgument(f"no function {name}; allowed: {', '.join(methods)}")
    return method


def _params(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {name: param for name, param in inspect.signature(method).parameters.items() if name != "stream"}


def _can_be_given(param: inspect.Parameter) -> bool:
    return param.kind is not inspect.Parameter.VAR_POSITIONAL and param.annotation != "Any"


def _bind(
    name: str, method: Callable[..., Any], arrays: Sequence[tuple[Given, NDArray[Any]]], options: Sequence[Given]
) -> tuple[dict[str, Any], dict[str, Given]]:
    """Arguments of a method by name, and where they come from: options, and arrays in order for other parameters."""
    params = _params(method)
    values, origins = _options(name, params, options)
    places = [key for key, param in params.items() if param.annotation.startswith(ARRAYS) and key not in values]
    if len(arrays) > len(places):
        words = f"up to {len(places)} arrays: {', '.join(places)}" if places else "no arrays"
        raise InvalidArgument(f"{arrays[len(places)][0]}: {name} takes {words}")
    for key, (given, array) in zip(places, arrays, strict=False):
        if given.option == "inout" and not params[key].annotation.startswith("Changed"):
            raise InvalidArgument(f"{given}: {name} does not change {key}; allowed: --in {given.text}")
        values[key], origins[key] = array, given
    values |= _typed(name, params, {key: array for key, array in values.items() if key in places})
    missing = [key for key, param in params.items() if param.default is param.empty and key not in values]
    if missing:
        key = missing[0]
        forms = f"{key}: --in FILE" if key in places else f"--set {key}=..."
        raise InvalidArgument(f"{name} needs {forms}{_or_number(params[key])}")
    return values, origins


def _or_number(param: inspect.Parameter) -> str:
    return f", or a number: --set {param.name}=..." if param.annotation == "Operand" else ""


def _options(
    name: str, params: Mapping[str, inspect.Parameter], given: Sequence[Given]
) -> tuple[dict[str, Any], dict[str, Given]]:
    """Values of options by name, and where they come from.

    :raise errors.InvalidArgument: one is not known, not understood, or given twice.
    """
    allowed = [key for key, param in params.items() if not param.annotation.startswith(("Array", "Changed"))]
    values: dict[str, Any] = {}
    origins: dict[str, Given] = {}
    for one in given:
        key, separator, text = one.text.partition("=")
        if key not in allowed or not separator:
            raise InvalidArgument(f"{one}: {name} takes {', '.join(f'{word}=...' for word in allowed) or 'no options'}")
        if key in values:
            raise InvalidArgument(f"{one}: {key} is set already, by {origins[key]}; allowed: once")
        values[key], origins[key] = value_of(one, text, params[key].annotation), one
    return values, origins


def _typed(name: str, params: Mapping[str, inspect.Parameter], arrays: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Option by which a function without arrays gets the type in its name; checks the type of arrays.

    :raise errors.InvalidArgument: no array has the type.
    """
    suffix = SUFFIX.search(name)
    if suffix is None:
        return {}
    wanted, found = TYPES[suffix.group(1)], [str(array.real.dtype) for array in arrays.values()]
    if wanted.startswith("complex"):
        found = [str(_complex_of(array)) for array in arrays.values()]
    if not found:
        return {"dtype": wanted} if "dtype" in params else {}
    if wanted not in found:
        raise InvalidArgument(f"{name} with arrays of {', '.join(found)}; allowed: {wanted}, or {SUFFIX.sub('', name)}")
    return {}


def _complex_of(array: NDArray[Any]) -> Any:
    """Type of complex numbers that have parts of an array's type, or that it has."""
    import numpy as np

    return np.result_type(array.dtype, np.complex64)


def _results(result: Any) -> Iterator[NDArray[Any]]:
    """Arrays that a method returned, in the guest."""
    import numpy as np

    for one in result if isinstance(result, tuple) else (result,):
        yield one.get() if isinstance(one, DeviceArray) else np.asarray(one)


# ---- registered functions ------------------------------------------------------------------------


def _call_registered(device: Device, arguments: argparse.Namespace) -> str:

    given: list[Given] = arguments.given
    function = _registered(device, arguments.name)
    _check_options(arguments.name, "a registered function", given, ("in", "inout", "arg"))
    parsed = [_argument(one) for one in given]
    runner.check(function, parsed, [str(one) for one in given])
    steps = Steps()
    grid, block = arguments.grid or 1, arguments.block or 1
    steps.timed(
        "call",
        lambda: device.call(arguments.name, grid=grid, block=block, args=[_wrapped(argument) for argument in parsed]),
        f"on {device.info().engine_name}",
    )
    lines = []
    for argument in parsed:
        if argument.is_output:
            if argument.save_to is not None:
                runner.save(argument.save_to, argument.value)
            lines.append(runner.summary(argument.text, argument.value, argument.save_to))
    return "\n".join([*lines, str(steps)])


def _registered(device: Device, name: str) -> Function:
    """Function of the VM.

    :raise errors.NotFound: nothing has the name; the text has built-in functions that may be meant.
    """
    try:
        return device.function(name)
    except NotFound as error:
        stem = SUFFIX.sub("", name).rpartition(".")[2]
        close = [known for group in GROUPS for known in _methods(device, group) if stem in known.split(".")]
        hint = f"; built-in functions: {', '.join(close)}" if close else ""
        raise NotFound(f"{error}{hint}") from None


def _argument(given: Given) -> runner.Argument:
    """Argument of a kernel: a number takes the type of its parameter."""
    if given.option == "in":
        return runner.Argument(given.text, _load(given))
    if given.option == "inout":
        return runner.Argument(given.text, _load(given), is_output=True, save_to=Path(given.text))
    for number in (int, float):
        try:
            return runner.Argument(given.text, number(given.text))
        except ValueError:
            continue
    return runner.parse(given.text)


def _wrapped(argument: runner.Argument) -> Any:
    """Argument for `Device.call`."""
    import numpy as np

    if not isinstance(argument.value, np.ndarray):
        return argument.value
    return InOut(argument.value) if argument.is_output else In(argument.value)


# ---- both ----------------------------------------------------------------------------------------


def _load(given: Given) -> NDArray[Any]:
    """Array of a file, in C order.

    :raise ValueError: the file cannot be read; the text names it.
    """
    import numpy as np

    try:
        array = np.load(given.text)
    except OSError as error:
        raise InvalidArgument(f"{given}: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise InvalidArgument(f"{given}: no array of numbers; allowed: files that numpy.save has written") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise InvalidArgument(f"{given}: several arrays; allowed: files that numpy.save has written")
    return np.require(array, requirements=("C", "W"))


def _check_options(name: str, kind: str, given: Sequence[Given], allowed: Sequence[str]) -> None:
    for one in given:
        if one.option not in allowed:
            words = ", ".join(f"--{word}" for word in allowed)
            raise InvalidArgument(f"{one}: {name} is {kind}; allowed: {words}, see `vgc call --help`")
