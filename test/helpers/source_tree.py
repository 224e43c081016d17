"""What a tree of Python files imports, and how much code a file holds: by parsing it."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

#: Tokens that are no code.
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def imported_modules(root: Path, file: Path) -> Iterator[str]:
    """The full names of all modules that a file below `root` imports, at any depth.

    `from a import b` names the module `a.b` if `root` has one, else `a`.
    """
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = file.relative_to(root).parts[: -node.level] if node.level else ()
            source = ".".join([*package, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if _is_module(root, inner) else source


def _is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def count_code_lines(file: Path) -> int:
    """The lines of a file that are neither blank, nor comment, nor docstring."""
    text = file.read_text()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            assert docstring.end_lineno is not None
            docstrings |= set(range(docstring.lineno, docstring.end_lineno + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)
