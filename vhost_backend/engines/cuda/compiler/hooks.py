"""Puts the control system's hooks into a program, between the compiler and the assembler.

Every kernel gets two pieces of PTX. The first, where its body begins, is for the block's first thread: it looks up its
processing element's row in the binding table (``__vgc_control``) and loads the attention word there. If the word is
0, or the program was loaded without a control area, that was all; otherwise ``__vgc_block_begin`` is called, which
answers with the time. The second, before each end of the kernel, calls ``__vgc_block_end`` in the thread that has such
a time. What calls the driver's ``vprintf`` and ``__assertfail``, as ``printf`` and ``assert`` do under whatever name,
calls ours of the same kind, which look whether somebody listens and call the driver's then; ``trap`` is told of before
it traps.

All of these functions are in ``kernels/cuda/control/vgc_hooks.h``, which every source is compiled with. They are never
inlined, and a kernel may take no more registers than lets as many of its threads be resident as without hooks: what the
functions need beyond that they keep in memory.

*A block ends when its first thread does.* Threads of other warps may still be running then: to see the last one go,
every warp of every block would have to count, whether anybody looks or not.
"""

from __future__ import annotations

_ROW_BYTES = 1024
"""sizeof(struct vgc_ctl_pe)"""
_ATTENTION_AT = 64
_NUM_PES_AT = 8
"""In struct vgc_cuda_link, whose first member is the table's address."""
_NAMES = "__vgc_kernels"

_BEGIN = f"""\
	.reg .b64 %vgc_since;
	mov.u64 %vgc_since, 0;
	{{
	.reg .pred %vgc_out;
	.reg .b32 %vgc_x, %vgc_y, %vgc_pe, %vgc_pes;
	.reg .b64 %vgc_row;
	.param .b32 vgc_pe;
	.param .b64 vgc_name;
	.param .b64 vgc_began;
	mov.u32 %vgc_x, %tid.x;
	mov.u32 %vgc_y, %tid.y;
	or.b32 %vgc_x, %vgc_x, %vgc_y;
	mov.u32 %vgc_y, %tid.z;
	or.b32 %vgc_x, %vgc_x, %vgc_y;
	setp.ne.u32 %vgc_out, %vgc_x, 0;
	@%vgc_out bra $vgc_go_on;
	mov.u32 %vgc_pe, %smid;
	ld.const.u32 %vgc_pes, [__vgc_control+{_NUM_PES_AT}];
	setp.ge.u32 %vgc_out, %vgc_pe, %vgc_pes;
	@%vgc_out bra $vgc_go_on;
	ld.const.u64 %vgc_row, [__vgc_control];
	mad.wide.u32 %vgc_row, %vgc_pe, {_ROW_BYTES}, %vgc_row;
	ld.relaxed.gpu.global.u32 %vgc_x, [%vgc_row+{_ATTENTION_AT}];
	setp.eq.u32 %vgc_out, %vgc_x, 0;
	@%vgc_out bra $vgc_go_on;
	st.param.b32 [vgc_pe], %vgc_pe;
	mov.u64 %vgc_row, {_NAMES};
	cvta.global.u64 %vgc_row, %vgc_row;
	add.u64 %vgc_row, %vgc_row, NAME_AT;
	st.param.b64 [vgc_name], %vgc_row;
	call (vgc_began), __vgc_block_begin, (vgc_pe, vgc_name);
	ld.param.b64 %vgc_since, [vgc_began];
$vgc_go_on:
	}}"""
_END = """\
	{
	.reg .pred %vgc_out;
	.param .b64 vgc_since;
	setp.eq.u64 %vgc_out, %vgc_since, 0;
	@%vgc_out bra $vgc_go_on;
	st.param.b64 [vgc_since], %vgc_since;
	call __vgc_block_end, (vgc_since);
$vgc_go_on:
	}"""
_TRAP = "\tcall __vgc_trap;"
_OURS = "__vgc_"
_BLOCKS = ("__vgc_block_begin", "__vgc_block_end")
_DRIVERS = ((b"__vgc_driver_vprintf", b"vprintf"), (b"__vgc_driver_assertfail", b"__assertfail"))
"""What our header calls the driver's functions: nvcc's host headers have a ``vprintf`` of another kind."""
_INSTEAD = {"vprintf,": "__vgc_vprintf", "__assertfail,": "__vgc_assertfail"}
_DECLARATIONS = (".reg", ".local", ".shared", ".pragma", ".loc", ".file", "//")


_FREE_REGISTERS = 32
"""Of a thread, on a processing element that is full of threads, whatever the architecture."""
_RESERVED = 4
"""Of these, at most, for the stack and what ptxas itself needs."""
_WORDS = {"64": 2, "128": 4}
_REGISTER_STEP = 8
"""Registers are given out by so many."""


def wanted_macros(source: bytes) -> list[str]:
    """What of the header a program needs that may print or fail: it takes three times as long to compile."""
    macros = (
        ("VGC_CUDA_PRINTS", (b"print",)),
        ("VGC_CUDA_FAILS", (b"assert", b"trap")),
        ("VGC_CUDA_API_WANTED", (b"vgc",)),
    )
    return [f"-D{macro}" for macro, words in macros if any(word in source for word in words)]


def without(text: bytes) -> bytes | None:
    """The PTX of a source with our header, as it is without hooks; None: it has no kernel, and should be compiled without
    the header.
    """
    if b".entry" not in text:
        return None
    for ours, theirs in _DRIVERS:
        text = text.replace(ours, theirs)
    return text


def hooked(text: bytes, registers: dict[str, int]) -> bytes | None:
    """The PTX with hooks, for kernels that take so many registers without; None: it is not of a source with our header, or it has no kernel.

    What stands between ``.entry`` or ``.func`` and a closing brace at the start of a line is a function, as compilers
    write them. [PTX ISA: Directives]
    """
    lines = text.rstrip(b"\0").decode("utf-8", errors="surrogateescape").split("\n")
    ours = {name for line in lines if (name := _name(line)).startswith(_OURS)}
    if not ours.issuperset(_BLOCKS):
        return None
    instead = {theirs: f"{name}," for theirs, name in _INSTEAD.items() if name in ours}
    within = {"trap": _TRAP} if "__vgc_trap" in ours else {}
    found: list[str] = []
    names: list[str] = []
    first = at = 0
    while at < len(lines):
        start, end = _body(lines, at)
        name = _name(lines[at])
        found.extend(lines[at:start])
        if name in ours:
            found.extend(lines[start:end])
        elif ".entry" in _code(lines[at]) and end > start:
            first = first or len(found) - (start - at)
            found[-1:] = _limited(found, registers.get(name, 0), start - at)
            found.extend(_kernel(lines[start:end], sum(len(other) + 1 for other in names), within, instead))
            names.append(name)
        else:
            found.extend(_rewritten(line, str(start + i), within, instead) for i, line in enumerate(lines[start:end]))
        at = max(end, at + 1)
    if not names:
        return None
    found.insert(first, _table(names))
    return "\n".join(found).encode("utf-8", errors="surrogateescape")


def is_small(text: bytes) -> bool:
    """Do all kernels have fewer variables than there are free registers, whatever the assembler makes of them?

    Without loops, which it unrolls, and calls, no more variables live at once than the compiler has written down; one
    kernel in doubt is enough for False. Functions with hooks are none of the kernels' own.
    """
    lines = text.rstrip(b"\0").decode("utf-8", errors="surrogateescape").split("\n")
    kernels = (_body(lines, at) for at, line in enumerate(lines) if ".entry" in _code(line))
    return all(_is_small(lines[start:end]) for start, end in kernels)


def _is_small(body: list[str]) -> bool:
    words = 0
    labels: set[str] = set()
    for line in body:
        code = _code(line).strip()
        if code.endswith(":"):
            labels.add(code[:-1])
        elif code.startswith(".reg"):
            words += _words_of(code)
        elif "call" in code or "brx" in code or ("bra" in code and code.rstrip(";").split()[-1] in labels):
            return False
    return words <= _FREE_REGISTERS - _RESERVED


def _words_of(declaration: str) -> int:
    """Registers of 32 bits that a ``.reg .b64 %rd<8>;`` stands for; predicates have registers of their own."""
    kind, _, names = declaration.removeprefix(".reg").strip().partition(" ")
    if kind == ".pred":
        return 0
    counted = names.partition("<")[2].partition(">")[0]
    count = int(counted) - 1 if counted else names.count(",") + 1
    return count * _WORDS.get(kind[2:], 1)


def _limited(found: list[str], registers: int, head_lines: int) -> list[str]:
    """The brace that opens a kernel's body, with what it may take before it, unless its source says that."""
    if any(".maxnreg" in line for line in found[-head_lines:]):
        return ["{"]
    most = max(_FREE_REGISTERS, -(-registers // _REGISTER_STEP) * _REGISTER_STEP)
    return [f".maxnreg {most}", "{"]


def _body(lines: list[str], at: int) -> tuple[int, int]:
    """From the line behind the function's opening brace to that of its closing one; of other lines, the next one twice."""
    if _name(lines[at]):
        for number in range(at, len(lines)):
            code = _code(lines[number]).rstrip()
            if code == "{":
                return number + 1, lines.index("}", number) if "}" in lines[number:] else number + 1
            if code.endswith(";"):
                break
    return at + 1, at + 1


def _name(line: str) -> str:
    """Of the function that the line begins; "": it begins none."""
    code = _code(line)
    for word in (".entry", ".func"):
        if word in code:
            rest = code.partition(word)[2].strip()
            if rest.startswith("("):
                rest = rest.partition(")")[2].strip()
            return rest.partition("(")[0].strip() or "?"
    return ""


def _table(names: list[str]) -> str:
    """The kernels' names, each with a zero behind it: what records call them by."""
    content = b"".join(name.encode("utf-8", errors="surrogateescape") + b"\0" for name in names)
    return f".visible .global .align 8 .b8 {_NAMES}[{len(content)}] = {{{', '.join(map(str, content))}}};"


def _kernel(body: list[str], name_at: int, within: dict[str, str], instead: dict[str, str]) -> list[str]:
    """A kernel's body with its hooks."""
    first = 0
    while first < len(body) and (not body[first].strip() or body[first].lstrip().startswith(_DECLARATIONS)):
        first += 1
    hooks = {"ret": _END, "ret.uni": _END, "exit": _END, **within}
    rest = [_rewritten(line, str(number), hooks, instead) for number, line in enumerate(body[first:])]
    return [*body[:first], _BEGIN.replace("NAME_AT", str(name_at)), *rest]


def _rewritten(line: str, label: str, hooks: dict[str, str], instead: dict[str, str]) -> str:
    """A line with a hook before each statement that has one, and with our functions for the driver's."""
    for theirs, ours in instead.items():
        if theirs in line and ours not in line:
            line = line.replace(theirs, ours)
    if not any(word in line for word in hooks):
        return line
    pieces = _code(line).split(";")
    for place, statement in enumerate(pieces[:-1]):
        words = statement.replace("{", " { ").replace("}", " } ").replace(":", ": ").split()
        hook = hooks.get(words[-1]) if words else None
        pieces[place] = f"{statement};" if hook is None else _preceded(words, hook, f"$vgc_over_{label}_{place}")
    return "".join(pieces)


def _preceded(words: list[str], hook: str, label: str) -> str:
    """The hook, and the statement; under a condition, both."""
    before, statement = words[:-1], words[-1]
    condition = before.pop() if before and before[-1].startswith("@") else ""
    start = f"{' '.join(before)}\n" if before else ""
    if not condition:
        return f"{start}{hook}\n\t{statement};"
    otherwise = condition[2:] if condition.startswith("@!") else f"!{condition[1:]}"
    return f"{start}\t@{otherwise} bra {label};\n{hook}\n\t{statement};\n{label}:\n"


def _code(line: str) -> str:
    """The line without what a comment says."""
    return line.partition("//")[0]
