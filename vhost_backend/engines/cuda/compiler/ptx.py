"""Kinds of kernels' parameters from PTX; a cubin of the same compilation has only their sizes.

A kernel begins like this, and its body follows in braces [PTX ISA: Kernel Function Parameters]::

    .visible .entry NAME(
        .param .f32 NAME_param_0,
        .param .u64 .ptr .align 1 NAME_param_1,
        .param .align 8 .b8 NAME_param_2[24]
    )

NVRTC and nvcc write ``.ptr`` only for sm_100 and newer. For older architectures, a pointer is recognised in the body,
where it is converted to an address of global memory. So is an integer that is used as a pointer; guests may pass the
same values for both. Any other integer of 8 bytes looks like an unused pointer, so both are unknown.
"""

from __future__ import annotations

INTEGER, FLOAT, POINTER, OTHER, UNKNOWN = "ifpou"

_KINDS = {"u": INTEGER, "s": INTEGER, "f": FLOAT, "b": UNKNOWN}
_BITS = ("8", "16", "32", "64")
_POINTER_BYTES = 8
_MAX_DIGITS = 5
_NUMBER_STRUCTS = ((2, "2"), (16, "16"))
"""Size and alignment of numbers that are arrays of bytes in PTX: __half and similar types, __int128."""


def is_module(text: bytes) -> bool:
    """True if the text's first directive is ``.version``; comments may stand before it."""
    rest = text.lstrip()
    while rest[:2] in (b"//", b"/*"):
        rest = rest.partition(b"\n" if rest[:2] == b"//" else b"*/")[2].lstrip()
    return rest.startswith(b".version")


def kernels(text: bytes) -> dict[str, list[str]]:
    """Kind and size of each parameter (``f4``), by kernel. Kernels in another form than the above are left out."""
    found: dict[str, list[str]] = {}
    for part in text.decode("ascii", errors="replace").split(".entry")[1:]:
        head, _, rest = part.partition("{")
        named, _, declared = head.partition("(")
        body = rest.partition(".func")[0].partition("\n}")[0]
        name = (named.split() or [""])[0]
        params = _params(declared.partition(")")[0], body)
        if params is None or not (name and name.isascii()):
            continue
        if found.setdefault(name, params) != params:
            return {}  # two kernels of the same name: one of them is in a comment
    return found


def _params(declared: str, body: str) -> list[str] | None:
    used = _addresses(body)
    found = []
    for text in declared.split(",") if declared.strip() else []:
        param = _param(text.replace("[", " [ ").replace("]", " ] ").split(), used)
        if param is None:
            return None
        found.append(param)
    return found


def _param(words: list[str], used: set[str]) -> str | None:
    """Kind and size of ``.param [.align N] .TYPE [.ptr [.SPACE] [.align N]] NAME [[ COUNT ]]``."""
    types = [word for word in words if word[:1] == "." and word[1:2] in _KINDS and word[2:] in _BITS]
    if words[:1] != [".param"] or len(types) != 1 or any(word in (".v2", ".v4") for word in words):
        return None
    kind, size = _KINDS[types[0][1]], int(types[0][2:]) // 8
    if words[-1] == "]":
        return _array(words, size)
    if size == _POINTER_BYTES and kind != FLOAT:
        return f"{POINTER if '.ptr' in words or words[-1] in used else UNKNOWN}{size}"
    return f"{kind}{size}"


def _array(words: list[str], size: int) -> str | None:
    """Kind and size of an array: a struct, or one of a few numbers."""
    count = words[-2]
    if words[-3] != "[" or not count.isdigit() or len(count) > _MAX_DIGITS:
        return None
    size *= int(count)
    alignment = words[words.index(".align") + 1] if ".align" in words else ""
    return f"{UNKNOWN if (size, alignment) in _NUMBER_STRUCTS else OTHER}{size}"


def _addresses(body: str) -> set[str]:
    """Parameters that are addresses of global memory: ``ld.param`` to a register, ``cvta.to.global`` from it."""
    params: dict[str, str] = {}
    found = set()
    for statement in body.split(";"):
        if "ld.param." in statement:
            *_, register, param = ["", *statement.replace(",", " ").split()]
            params[register] = param.strip("[]")
        elif "cvta.to.global." in statement:
            found.add(params.get(statement.split()[-1], ""))
    return found
