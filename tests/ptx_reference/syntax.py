"""Parser of PTX modules: directives, variables, functions, and their statements with names bound by scope."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Final

from tests.ptx_reference.types import Type, type_of


class ParseError(Exception):
    """The text is no PTX that this parser knows."""


@dataclass(frozen=True, slots=True)
class Register:
    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    bits: int
    real: str = ""
    """``f32`` or ``f64`` for a float's bits; empty for an integer."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, function, label or special register, and a distance in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    base: Operand
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Operands in braces, in parentheses, or joined by ``|``."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    part: Operand


Operand = Register | Immediate | Symbol | Address | Group | Negated


@dataclass(frozen=True, slots=True)
class Statement:
    opcode: str
    operands: tuple[Operand, ...]
    guard: Operand | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    space: str
    type: Type
    count: int
    align: int
    initial: tuple[Operand, ...] = ()
    external: bool = False
    array: bool = False

    @property
    def size(self) -> int:
        return self.type.width // 8 * self.count


@dataclass(slots=True)
class Function:
    name: str
    results: list[Variable]
    parameters: list[Variable]
    statements: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    registers: dict[str, Type] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    kernel: bool = False
    defined: bool = False


@dataclass(slots=True)
class Module:
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<real>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)
    | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    | (?P<text>"[^"]*")
    | (?P<name>[.%$_A-Za-z][\w$]*(?:::[\w$]+)*(?:\.[\w:$]+)*)
    | (?P<mark><|>|[-+@!{}()\[\],;:|=*])""",
    re.VERBOSE | re.DOTALL,
)
_SKIPPED: Final = {".version", ".target", ".address_size"}
_LINKAGE: Final = {".visible", ".extern", ".weak", ".common"}
_SPACES: Final = {".global", ".shared", ".const", ".local", ".param", ".reg"}


def tokens_of(text: str) -> list[tuple[str, str]]:
    """Kinds and texts of all tokens.

    :raise ParseError: a character begins no token.
    """
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ParseError(f"no token: {text[at : at + 20]!r}")
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


def parse(text: str) -> Module:
    """The module of a text.

    :raise ParseError: this parser does not know some of it.
    """
    return _Parser(tokens_of(text.rstrip("\0"))).module()


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = [*tokens, ("end", "")]
        self.at = 0
        self.parsed = Module()
        self.scopes: list[dict[str, Operand]] = []
        self.unique = 0

    # tokens
    def peek(self) -> str:
        return self.tokens[self.at][1]

    def next(self) -> str:
        if self.tokens[self.at][0] == "end":
            raise ParseError("the text ends too early")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def take(self, text: str) -> bool:
        if self.peek() != text or self.tokens[self.at][0] == "end":
            return False
        self.at += 1
        return True

    def need(self, text: str) -> None:
        if not self.take(text):
            near = " ".join(token for _, token in self.tokens[max(0, self.at - 8) : self.at + 4])
            raise ParseError(f"expected {text!r} near {near}")

    def number(self) -> int:
        sign = -1 if self.take("-") else 1
        text = self.next().rstrip("U")
        try:
            return sign * int(text, 0 if not text.isdigit() else 10)
        except ValueError:
            raise ParseError(f"expected a number, not {text!r}") from None

    # declarations
    def module(self) -> Module:
        while self.tokens[self.at][0] != "end":
            head = self.peek()
            if head in _SKIPPED:
                self.skip_directive()
            elif head == ".file":
                self.skip_file()
            elif head.startswith(".section"):
                self.skip_section()
            else:
                self.declaration()
        return self.parsed

    def skip_directive(self) -> None:
        self.next()
        self.next()
        while self.take(","):
            self.next()

    def skip_file(self) -> None:
        self.at += 3
        while self.take(","):
            self.next()

    def skip_section(self) -> None:
        while self.next() != "{":
            pass
        while self.next() != "}":
            pass

    def declaration(self) -> None:
        external = False
        while self.peek() in _LINKAGE:
            external |= self.next() == ".extern"
        if self.peek() in (".entry", ".func"):
            self.function()
        else:
            for variable in self.variables(external=external):
                self.parsed.variables.append(variable)

    def variables(self, *, external: bool = False) -> list[Variable]:
        """Variables of a declaration up to its semicolon; registers of a list become several."""
        space, kind, align = self.declared_type()
        made = []
        while True:
            made.append(self.declarator(space, kind, align, external=external))
            if not self.take(","):
                break
        self.need(";")
        return made

    def declared_type(self) -> tuple[str, Type, int]:
        space = self.next()
        if space not in _SPACES:
            raise ParseError(f"{space!r} declares nothing")
        align, vector, kind = 0, 1, None
        while True:
            word = self.peek()
            if word == ".align":
                self.next()
                align = self.number()
                continue
            if word == ".ptr":
                self.next()
                continue
            if word in _SPACES and kind is not None:
                self.next()
                continue
            found = type_of(word[1:]) if word.startswith(".") else None
            if word in (".v2", ".v4"):
                vector = int(word[2:])
            elif found is not None and kind is None:
                kind = found
            else:
                break
            self.next()
        if kind is None:
            raise ParseError(f"expected a type, not {self.peek()!r}")
        return space[1:], Type(kind.kind, kind.bits, kind.lanes * vector), align

    def declarator(self, space: str, kind: Type, align: int, *, external: bool = False) -> Variable:
        name, count, array = self.next(), 1, False
        if self.take("<"):
            count = self.number()
            self.need(">")
            return Variable(name, space, kind, -count, 1)
        while self.take("["):
            array = True
            count *= 0 if self.peek() == "]" else self.number()
            self.need("]")
        initial: tuple[Operand, ...] = ()
        if self.take("="):
            initial = self.initialiser()
            count = count or len(initial)
        return Variable(name, space, kind, count, align or kind.width // 8, initial, external, array)

    def initialiser(self) -> tuple[Operand, ...]:
        if not self.take("{"):
            return (self.operand(),)
        found: list[Operand] = []
        while not self.take("}"):
            found += self.initialiser() if self.peek() == "{" else (self.operand(),)
            self.take(",")
        return tuple(found)

    def function(self) -> None:
        kernel = self.next() == ".entry"
        self.scopes = [{}]
        made = Function("", [], [], kernel=kernel)
        if self.peek() == "(":
            made.results = self.parameters(made)
        made.name = self.next()
        if self.peek() == "(":
            made.parameters = self.parameters(made)
        while self.peek() not in ("{", ";"):
            self.next()
        if self.take("{"):
            made.defined = True
            self.body(made)
        else:
            self.need(";")
        if made.defined or made.name not in self.parsed.functions:
            self.parsed.functions[made.name] = made

    def parameters(self, function: Function) -> list[Variable]:
        self.need("(")
        made = []
        while not self.take(")"):
            space, kind, align = self.declared_type()
            variable = self.declarator(space, kind, align)
            made.append(variable)
            if space == "reg":
                self.scopes[-1][variable.name] = Register(variable.name)
                function.registers[variable.name] = kind
            self.take(",")
        return made

    # statements
    def body(self, function: Function) -> None:
        while not self.take("}"):
            word = self.peek()
            if self.take("{"):
                self.scopes.append({})
                self.body(function)
                self.scopes.pop()
            elif word in _SPACES:
                self.local_declaration(function)
            elif word in (".loc", ".pragma"):
                self.skip_note()
            elif self.tokens[self.at + 1][1] == ":":
                self.label(function)
            else:
                self.statement(function)

    def skip_note(self) -> None:
        if self.next() == ".pragma":
            while self.next() != ";":
                pass
            return
        self.at += 3
        while self.take(","):
            if self.next() == "inlined_at":
                self.at += 3
            else:
                self.next()
                if self.take("+"):
                    self.next()

    def local_declaration(self, function: Function) -> None:
        for variable in self.variables():
            if variable.space == "reg":
                count = -variable.count
                names = [f"{variable.name}{n}" for n in range(count)] if count > 0 else [variable.name]
                for name in names:
                    self.bind(function, name, variable.type)
            else:
                self.unique += 1
                unique = f"{variable.name}#{self.unique}"
                self.scopes[-1][variable.name] = Symbol(unique)
                function.variables.append(
                    Variable(unique, variable.space, variable.type, variable.count, variable.align, variable.initial)
                )

    def bind(self, function: Function, name: str, kind: Type) -> None:
        self.unique += 1
        unique = name if name not in function.registers else f"{name}#{self.unique}"
        self.scopes[-1][name] = Register(unique)
        function.registers[unique] = kind

    def label(self, function: Function) -> None:
        name = self.next()
        self.need(":")
        if self.peek() == ".branchtargets":
            self.next()
            names = [self.next()]
            while self.take(","):
                names.append(self.next())
            self.need(";")
            function.targets[name] = tuple(names)
        elif self.peek() == ".callprototype":
            while self.next() != ";":
                pass
        else:
            function.labels[name] = len(function.statements)

    def statement(self, function: Function) -> None:
        guard: Operand | None = None
        if self.take("@"):
            guard = Negated(self.operand()) if self.take("!") else self.operand()
        opcode = self.next()
        operands: list[Operand] = []
        while not self.take(";"):
            operands.append(self.operand())
            if not self.take(","):
                self.need(";")
                break
        function.statements.append(Statement(opcode, tuple(operands), guard))

    def operand(self) -> Operand:
        for first, last in (("{", "}"), ("(", ")")):
            if self.take(first):
                parts = []
                while not self.take(last):
                    parts.append(self.operand())
                    self.take(",")
                return Group(tuple(parts))
        if self.take("["):
            inside = self.operand()
            offset = 0
            if self.take("+"):
                offset = self.number()
            self.need("]")
            return Address(inside, offset)
        if self.take("!"):
            return Negated(self.operand())
        found = self.single()
        if self.take("|"):
            return Group((found, self.operand()))
        return found

    def single(self) -> Operand:
        kind = self.tokens[self.at][0]
        if kind == "number" or self.peek() == "-":
            if self.peek() == "-" and self.tokens[self.at + 1][0] == "real":
                self.next()
                return self.real(negative=True)
            return Immediate(self.number())
        if kind == "real":
            return self.real(negative=False)
        name = self.next()
        if name == "generic":
            self.need("(")
            inner = self.operand()
            self.need(")")
            return inner
        found = self.lookup(name)
        if isinstance(found, Symbol) and self.peek() in ("+", "["):
            if self.take("["):
                index = self.number()
                self.need("]")
                return Symbol(found.name, index * self.element_size(found.name))
            self.need("+")
            return Symbol(found.name, self.number())
        return found

    def element_size(self, name: str) -> int:
        return next((v.type.width // 8 for v in self.parsed.variables if v.name == name), 1)

    def lookup(self, name: str) -> Operand:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return Symbol(name)

    def real(self, *, negative: bool) -> Immediate:
        text = self.next()
        if text[:2].lower() == "0f":
            return Immediate(_hexadecimal(text) ^ negative << 31, "f32")
        if text[:2].lower() == "0d":
            return Immediate(_hexadecimal(text) ^ negative << 63, "f64")
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0] ^ negative << 63, "f64")


def _hexadecimal(text: str) -> int:
    """Bits of a float that is written as 0f or 0d and hexadecimal digits."""
    return int("0x" + text[2:], 0)
