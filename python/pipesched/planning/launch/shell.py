"""Reads the flags of the training that a shell script starts, without running the script.

It understands assignments, arrays, `$((...))`, `${X:-default}`, continued lines and quotes. A value
that only a shell can know, such as `$(...)` or one under a condition, becomes a mark: a word that
holds the reason. Only a setting that needs such a value is refused.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import shlex
from collections.abc import Callable

from ...errors import PipeSchedError

_MARK = "\x00"

_QUOTED = r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\."
_NESTED = r"\((?:[^()]|\([^()]*\))*\)"
_ARRAY = rf"\(((?:{_QUOTED}|\${_NESTED}|[^()'\"\\])*)\)"
_COMMENT = re.compile(rf"({_QUOTED})|(?:(?<=\s)|^)#[^\n]*", re.DOTALL | re.MULTILINE)
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1[^\n]*(\n.*?)^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_STATEMENT = re.compile(rf"(?:=(?:{_ARRAY})|{_QUOTED}|[^;\n'\"\\])+", re.DOTALL)
_KEYWORD = re.compile(
    r"(?:(if|for|while|until|case)|(fi|done|esac)|then|else|elif|do|eval|export|declare|local"
    r"|readonly|[{}]|(?:function\s+)?[\w-]+\s*\(\s*\)\s*\{)(?:\s+|$)"
)
_EXPANDED = re.compile(
    rf"(\"(?:\\.|[^\"\\])*\")|'[^']*'|\\.|\$\(({_NESTED})\)"
    rf"|\$\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}|\${_NESTED}|`[^`]*`|\$(\w+|[@*#?])",
    re.DOTALL,
)
_BRACES = re.compile(r"(\w+|@)(?:\[[@*]\])?(?:(:?)([-=?])(.*))?", re.DOTALL)
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Div: operator.floordiv,
}


def mark(why: str) -> str:
    """Returns one word for a value that is not known, which holds the reason."""
    return f"{_MARK}{why.encode().hex()}{_MARK}"


def reason_of(value: str) -> str | None:
    """Returns why a value is not known; None if it is."""
    return bytes.fromhex(value.split(_MARK)[1]).decode() if _MARK in value else None


def _blank(text: str) -> str:
    """The newlines of a text, so that lines keep their numbers."""
    return "\n" * text.count("\n")


class _Script:
    """The variables of a script, and the words of its commands with their lines."""

    def __init__(self, text: str, file: str) -> None:
        self.file, self.line = file, 1
        self.values = dict.fromkeys("@*#?", "")
        self.commands: list[tuple[int, list[str]]] = []
        text = _HERE.sub(lambda found: _blank(found[3]), text.replace(_MARK, ""))
        text = _COMMENT.sub(lambda found: found[1] or "", text)
        depth, last = 0, 0
        for found in _STATEMENT.finditer(text):
            statement = found[0].lstrip()
            start = found.end() - len(statement)
            self.line += text.count("\n", last, start)
            last, statement = start, statement.replace("\\\n", " ").rstrip()
            while keyword := _KEYWORD.match(statement):
                depth += bool(keyword[1]) - bool(keyword[2])
                statement = statement[keyword.end() :]
            self._run(statement, depth > 0 or "&&" in statement or "||" in statement)

    def _run(self, statement: str, is_guarded: bool) -> None:
        """Stores the values that a statement assigns, and the words of its command."""
        array = re.fullmatch(rf"(\w+)(\+?)={_ARRAY}", statement, re.DOTALL)
        if array:
            before = f"{self.values.get(array[1], '')} " if array[2] else ""
            self._store(array[1], before + self._expand(array[3]), is_guarded)
            return
        words = self._words(self._expand(statement))
        while words and (one := re.match(r"(\w+)(\+?)=", words[0])):
            before = self.values.get(one[1], "") if one[2] else ""
            self._store(one[1], before + words.pop(0)[one.end() :], is_guarded)
        for name in re.findall(r"\s(\w+)\+?=", " ".join(words)) if is_guarded else ():
            self._store(name, "", is_guarded)
        self.commands.append((self.line, words))

    def _store(self, name: str, value: str, is_guarded: bool) -> None:
        """Stores a value. Under a condition it is not known, but the flags in it are, and so is the
        value before if the new one starts with it.
        """
        if is_guarded:
            unknown = self._mark(f"{name} depends on a condition")
            old = self.values.get(name, "")
            kept = old if value.startswith(old) else ""
            words = self._words(value[len(kept) :])
            flags = [f"{w.partition('=')[0]}={unknown}" for w in words if w.startswith("--")]
            value = " ".join([kept, *flags]) if flags else unknown
        self.values[name] = value

    def _mark(self, why: str) -> str:
        return mark(f"{self.file}:{self.line}: {why}")

    @staticmethod
    def _words(text: str) -> list[str]:
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()  # a quote that does not end

    def _expand(self, text: str, is_quoted: bool = False) -> str:
        """The text with the values of variables in it, as the shell would read it again."""

        def replace(found: re.Match[str]) -> str:
            quoted, total, braces, name = found.groups()
            if quoted is not None:
                if re.fullmatch(r"\"\$(?:\{\w+\[@\]\}|@)\"", quoted):
                    return self._expand(quoted[1:-1])  # the words of an array
                return f'"{self._expand(quoted[1:-1], True)}"'
            if found[0].startswith("'") and is_quoted:
                return f"'{self._expand(found[0][1:-1], True)}'"  # plain text inside of quotes
            if not found[0].startswith(("$", "`")):
                return found[0]
            if total is not None:
                value = self._compute(total[1:-1])
            elif braces is not None:
                value = self._braces(braces)
            elif name is not None:
                value = self._get(name)
            else:
                value = self._mark(f"{found[0]} is a command, which is not run")
            return re.sub(r"([\"\\])", r"\\\1", value) if is_quoted else value

        return _EXPANDED.sub(replace, text)

    def _get(self, name: str) -> str:
        """A variable of the script, else of the environment, else a mark."""
        found = self.values.get(name, os.environ.get(name))
        if found is None:
            return self._mark(f"${name} has no value and no default; set it before")
        return found

    def _braces(self, text: str) -> str:
        """The value of `${text}`."""
        parts = _BRACES.fullmatch(text)
        if parts is None:
            return self._mark(f"${{{text}}} is not understood")
        name, colon, kind, other = parts.groups()
        found = self.values.get(name, os.environ.get(name))
        if kind in (None, "?") or (found is not None and (found or not colon)):
            return self._get(name)
        return " ".join(self._words(self._expand(other)))

    def _compute(self, text: str) -> str:
        """The value of `$((text))`."""

        def value(node: ast.AST) -> int:
            if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                return -value(node.operand)
            if isinstance(node, ast.Constant) and type(node.value) is int:
                return node.value
            raise ValueError

        made = re.sub(r"\b[A-Za-z_]\w*", lambda name: self._get(name[0]), self._expand(text))
        if why := reason_of(made):
            return mark(why)
        try:
            return str(value(ast.parse(made.strip(), mode="eval").body))
        except ZeroDivisionError:
            return self._mark(f"$(({text})) divides by 0")
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return self._mark(f"$(({text})) cannot be computed")


def flags_of(text: str, file: str) -> dict[str, tuple[str, int]]:
    """Returns the flags of the command that has most of them, each with its first value and its
    line. A flag without a value is `true`.
    """
    commands = _Script(text, file).commands
    line, words = max(
        commands, key=lambda each: sum(w.startswith("--") for w in each[1]), default=(0, [])
    )
    found: dict[str, tuple[str, int]] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            found[name] = value if equals else "true" if after.startswith("--") else after, line
    if len(found) < 2:
        raise PipeSchedError(f"{file}: no command has the flags of a training, --name value")
    return found
