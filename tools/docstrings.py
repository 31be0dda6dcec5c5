"""``python -m tools.docstrings``: finds riddles in docstrings, comments and Markdown pages.

A docstring opens with a verb or a noun that a stranger would search for, and names what it is about. This check knows
openings and phrases that never do. It covers all files that git tracks.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tools.common import REPOSITORY

_NOUN: Final = "open with a noun or a verb"
OPENINGS: Final = {
    "Of": f"{_NOUN}: 'Size of ...', 'Parser of ...'",
    "So": f"{_NOUN}; give the reason behind it",
    "As": f"{_NOUN}: 'Sends a message, as `codec.send`'",
    "Who": f"{_NOUN}: 'Owner of ...'",
    "Whom": f"{_NOUN}: 'Receiver of ...'",
    "Whose": f"{_NOUN}: 'VM that owns ...'",
    "How long": f"{_NOUN}: 'Timeout of ...', 'Period of ...', 'Time that ...'",
    "What": f"{_NOUN} that says what kind of thing it is: 'Fields of ...', 'Limits on ...', 'Reason why ...'",
    "The same": "say what is done or held here, not that it is the same",
    "Another": f"name the thing: 'Second worker', 'Different engine'; {_NOUN}",
}
"""Openings of docstrings and of C comments at the begin of a line, with advice."""

PHRASES: Final = {
    r"so\s+long": "name the time: 'within this time', 'while'",
    r"(?-i:[Ii]s\s+none)": "name what is missing: 'no worker is running', 'the file is no manifest'",
    r"(?-i:[Aa]re\s+none)": "name what is missing: 'no workers are running', 'the list is empty'",
    r"another\s+one": "name the thing: 'a second worker', 'a different GPU'",
    r"what\s+it\s+is\s+of": "name the thing",
    r"gets\s+on": "'continues', 'makes progress'",
    r"still\s+at\s+it": "'has not finished yet'",
    r"of\s+so": "name the number or the time: 'of `count` bytes', 'of this length'",
}
"""Phrases that are allowed nowhere, as patterns, with advice."""

C_SUFFIXES: Final = frozenset({".c", ".h", ".cpp", ".cu", ".cuh", ".cl", ".js", ".css"})
_C_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)', re.DOTALL)
_STAR: Final = re.compile(r"^[ \t]*\*?[ \t]?", re.MULTILINE)
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"`[^`]*`")
_OPENING: Final = re.compile(rf"\s*({'|'.join(sorted(OPENINGS, key=len, reverse=True))})\b")


@dataclass(frozen=True, slots=True)
class Text:
    """Docstring, comment or page, with the line where it begins. `opens` is true if its opening is checked."""

    line: int
    content: str
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One riddle: its place, its words, and advice."""

    path: str
    line: int
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.words}': {self.advice}"


# ---- texts of a file ---------------------------------------------------------------------------


def python_texts(source: str) -> Iterator[Text]:
    """Docstrings, strings that document constants and fields, and comments of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(node.lineno, node.value.value, opens=True)
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1].start[0] + 1:
                yield _joined(block)
                block = []
            block.append(token)
    if block:
        yield _joined(block)


def _joined(comments: Sequence[tokenize.TokenInfo]) -> Text:
    """Joins comments of adjacent lines, so that phrases across a line break are found."""
    return Text(comments[0].start[0], "\n".join(comment.string.lstrip("# ") for comment in comments))


def c_texts(source: str) -> Iterator[Text]:
    """Comments of a file in C or a language with C's comments."""
    for found in _C_COMMENT.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if found["block"] is not None:
            at_begin = found.start() == 0 or source[found.start() - 1] == "\n"
            yield Text(line, _STAR.sub("", found["block"]), opens=at_begin)
        elif found["line"] is not None:
            yield Text(line, found["line"])


def markdown_texts(source: str) -> Iterator[Text]:
    """A page without its code."""
    yield Text(1, _CODE.sub(_blank, _FENCE.sub(_blank, source)))


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def texts(path: str, source: str) -> Iterator[Text]:
    """Texts of a file, by its suffix; other files have none."""
    suffix = PurePosixPath(path).suffix
    if suffix in (".py", ".pyi"):
        yield from python_texts(source)
    elif suffix in C_SUFFIXES:
        yield from c_texts(source)
    elif suffix == ".md":
        yield from markdown_texts(source)


# ---- findings ----------------------------------------------------------------------------------


def findings(path: str, source: str) -> Iterator[Finding]:
    """Yields the riddles of a file."""
    for text in texts(path, source):
        opening = _OPENING.match(text.content) if text.opens else None
        if opening is not None:
            yield Finding(path, text.line + _lines(text, opening.start(1)), opening[1], OPENINGS[opening[1]])
        for phrase, advice in PHRASES.items():
            for found in re.finditer(rf"\b{phrase}\b", text.content, re.IGNORECASE):
                words = " ".join(found[0].split())
                yield Finding(path, text.line + _lines(text, found.start()), words, advice)


def _lines(text: Text, offset: int) -> int:
    return text.content.count("\n", 0, offset)


def tracked_files(root: Path = REPOSITORY) -> list[str]:
    """Lists the files that git tracks, and that exist."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def search(paths: Sequence[str], root: Path = REPOSITORY) -> list[Finding]:
    """Finds the riddles of several files, in order."""
    kinds = {".py", ".pyi", ".md", *C_SUFFIXES}
    chosen = [path for path in paths if PurePosixPath(path).suffix in kinds]
    found = (finding for path in chosen for finding in findings(path, (root / path).read_text(encoding="utf-8")))
    return sorted(found, key=lambda finding: (finding.path, finding.line))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the check; returns 1 if a file has a finding."""
    parser = argparse.ArgumentParser(prog="python -m tools.docstrings", description="Finds riddles in texts.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files to check (default: all that git tracks)")
    arguments = parser.parse_args(argv)
    found = search(arguments.paths or tracked_files())
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
