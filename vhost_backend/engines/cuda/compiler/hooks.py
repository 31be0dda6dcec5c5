"""Puts the control system's hooks into a program's PTX, between the compiler and the assembler.

Every kernel gets two pieces of PTX. The first, at the begin of its body, runs in the block's first thread: it finds its
processing element's row in the binding table (``__vgc_control``) and loads the attention word there. If the word is not
0 and the program was loaded with a control area, it calls ``__vgc_block_begin``, which returns the time. The second,
before each end of the kernel, calls ``__vgc_block_end`` in the thread that has such a time. Calls of the driver's
``vprintf`` and ``__assertfail``, by ``printf``, ``assert`` or under other names, are replaced by calls of functions
that make a record if a channel is bound and then call the driver's; ``trap`` is reported before it traps.

These functions are in ``kernels/cuda/control/vgc_hooks.h``, which every source is compiled with. They are never
inlined, and the registers of a kernel are limited so that as many of its threads are resident as without hooks; the
functions spill to memory.

*A block ends when its first thread ends.* Threads of other warps may still be running then: to find the last one, every
warp of every block would have to count, even in unwatched kernels.
"""

from __future__ import annotations

_ROW_BYTES = 1024
"""sizeof(struct vgc_ctl_pe)"""
_ATTENTION_AT = 64
_NUM_PES_AT = 8
"""Offset of num_pes in struct vgc_cuda_link, whose first member is the table's address."""
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
CLOCK_KERNEL = "__vgc_clock"
"""Kernel that reads the GPU's global timer and the bound of its SM numbers for the host (timer.c)."""
_CLOCK = f"""\
.visible .entry {CLOCK_KERNEL}(
	.param .u64 {CLOCK_KERNEL}_answer
)
{{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;

	ld.param.u64 %rd1, [{CLOCK_KERNEL}_answer];
	mov.u32 %r1, %nsmid;
	cvt.u64.u32 %rd2, %r1;
	st.global.u64 [%rd1+8], %rd2;
	mov.u64 %rd3, %globaltimer;
	st.release.sys.global.u64 [%rd1], %rd3;
	ret;
}}"""
_TRAP = "\tcall __vgc_trap;"
_OURS = "__vgc_"
_BLOCKS = ("__vgc_block_begin", "__vgc_block_end")
_DRIVERS = ((b"__vgc_driver_vprintf", b"vprintf"), (b"__vgc_driver_assertfail", b"__assertfail"))
"""Names of the driver's functions in vgc_hooks.h, since nvcc's host headers declare another ``vprintf``."""
_INSTEAD = {"vprintf,": "__vgc_vprintf", "__assertfail,": "__vgc_assertfail"}
_DECLARATIONS = (".reg", ".local", ".shared", ".pragma", ".loc", ".file", "//")


_FREE_REGISTERS = 32
"""Registers per thread on a processing element with all its threads, the same for all architectures."""
_RESERVED = 4
"""Most of these registers that ptxas needs for the stack and for itself."""
_WORDS = {"64": 2, "128": 4}
_REGISTER_STEP = 8
"""Granularity in which registers are allocated."""


def wanted_macros(source: bytes) -> list[str]:
    """Macros for the parts of the header that a source needs; the whole header takes three times as long to compile."""
    macros = (
        ("VGC_CUDA_PRINTS", (b"print",)),
        ("VGC_CUDA_FAILS", (b"assert", b"trap")),
        ("VGC_CUDA_API_WANTED", (b"vgc",)),
    )
    return [f"-D{macro}" for macro, words in macros if any(word in source for word in words)]


def without(text: bytes) -> bytes | None:
    """Names the driver's functions in the PTX of a source with vgc_hooks.h; None: it has no kernel, and should be
    compiled without the header.
    """
    if b".entry" not in text:
        return None
    for ours, theirs in _DRIVERS:
        text = text.replace(ours, theirs)
    return text


def hooked(text: bytes, registers: dict[str, int]) -> bytes | None:
    """Adds hooks and `CLOCK_KERNEL` to PTX. `registers`: registers of the kernels without hooks. None: the source was
    compiled without vgc_hooks.h, or has no kernel.

    A function is the text between ``.entry`` or ``.func`` and a closing brace at the start of a line, as compilers
    write it. [PTX ISA: Directives]
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
    found.append(_CLOCK)
    return "\n".join(found).encode("utf-8", errors="surrogateescape")


def is_small(text: bytes) -> bool:
    """True if every kernel surely has fewer variables than there are free registers.

    Without calls and without loops, which the assembler unrolls, no more variables live at once than the PTX declares.
    A kernel in doubt makes the result False. The hooks' functions do not count.
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
    """Number of 32-bit registers that ``.reg .b64 %rd<8>;`` declares; predicates have registers of their own."""
    kind, _, names = declaration.removeprefix(".reg").strip().partition(" ")
    if kind == ".pred":
        return 0
    counted = names.partition("<")[2].partition(">")[0]
    count = int(counted) - 1 if counted else names.count(",") + 1
    return count * _WORDS.get(kind[2:], 1)


def _limited(found: list[str], registers: int, head_lines: int) -> list[str]:
    """Opening brace of a kernel's body, with ``.maxnreg`` in front, unless the source has that."""
    if any(".maxnreg" in line for line in found[-head_lines:]):
        return ["{"]
    most = max(_FREE_REGISTERS, -(-registers // _REGISTER_STEP) * _REGISTER_STEP)
    return [f".maxnreg {most}", "{"]


def _body(lines: list[str], at: int) -> tuple[int, int]:
    """Range of lines of the body of the function that line `at` begins; empty if it begins none."""
    if _name(lines[at]):
        for number in range(at, len(lines)):
            code = _code(lines[number]).rstrip()
            if code == "{":
                return number + 1, lines.index("}", number) if "}" in lines[number:] else number + 1
            if code.endswith(";"):
                break
    return at + 1, at + 1


def _name(line: str) -> str:
    """Name of the function that the line begins; "" if it begins none."""
    code = _code(line)
    for word in (".entry", ".func"):
        if word in code:
            rest = code.partition(word)[2].strip()
            if rest.startswith("("):
                rest = rest.partition(")")[2].strip()
            return rest.partition("(")[0].strip() or "?"
    return ""


def _table(names: list[str]) -> str:
    """Declaration of the kernels' names, each with a zero behind it; records have their addresses."""
    content = b"".join(name.encode("utf-8", errors="surrogateescape") + b"\0" for name in names)
    return f".visible .global .align 8 .b8 {_NAMES}[{len(content)}] = {{{', '.join(map(str, content))}}};"


def _kernel(body: list[str], name_at: int, within: dict[str, str], instead: dict[str, str]) -> list[str]:
    """Adds hooks to a kernel's body."""
    first = 0
    while first < len(body) and (not body[first].strip() or body[first].lstrip().startswith(_DECLARATIONS)):
        first += 1
    hooks = {"ret": _END, "ret.uni": _END, "exit": _END, **within}
    rest = [_rewritten(line, str(number), hooks, instead) for number, line in enumerate(body[first:])]
    return [*body[:first], _BEGIN.replace("NAME_AT", str(name_at)), *rest]


def _rewritten(line: str, label: str, hooks: dict[str, str], instead: dict[str, str]) -> str:
    """Adds a hook before each statement of a line that has one, and replaces the driver's functions."""
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
    """Puts the hook before the statement, under its condition."""
    before, statement = words[:-1], words[-1]
    condition = before.pop() if before and before[-1].startswith("@") else ""
    start = f"{' '.join(before)}\n" if before else ""
    if not condition:
        return f"{start}{hook}\n\t{statement};"
    otherwise = condition[2:] if condition.startswith("@!") else f"!{condition[1:]}"
    return f"{start}\t@{otherwise} bra {label};\n{hook}\n\t{statement};\n{label}:\n"


def _code(line: str) -> str:
    """Line without its comment."""
    return line.partition("//")[0]
