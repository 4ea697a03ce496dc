"""Reads the types and functions that C and C++ sources define.

This is a tokenizer and a small recognizer of scopes, not a compiler: it needs
no flags and no build, and it reads the whole project in a second or two. It
keeps the first branch of `#if`, and it does not expand macros.
"""

import dataclasses
import re

TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<punct>::|->|[^\s\w])
  | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
CLASS_KEYS = {"class", "struct", "union", "enum"}
OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass
class Token:
    text: str
    line: int


@dataclasses.dataclass
class Definition:
    """A type or function, with its first and its last line."""

    kind: str  # "type" or "function"
    name: str  # fully qualified
    first: int
    last: int
    local: bool  # in an anonymous namespace
    member: bool  # of a type


class Conditionals:
    """Keeps one branch of every `#if`: the first, unless it is `#if 0`."""

    def __init__(self):
        self.open = []  # (is this branch left out, was a branch kept) per #if

    def read(self, directive):
        words = directive.strip().lstrip("#").split()
        word = words[0] if words else ""
        if word.startswith("if"):
            out = words[1:] == ["0"]
            self.open.append((out, not out))
        elif word.startswith("el") and self.open:
            kept = self.open[-1][1]
            self.open[-1] = (kept, True)
        elif word == "endif" and self.open:
            self.open.pop()

    def skipping(self):
        return any(out for out, _ in self.open)


def tokenize(text):
    """Returns the tokens that are code; a literal becomes one token."""
    tokens, line, conditionals = [], 1, Conditionals()
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "tag" else "raw"
        if kind == "directive":
            conditionals.read(match[0])
        elif kind not in ("comment", "space") and not conditionals.skipping():
            shown = '""' if kind in ("raw", "string", "char") else match[0]
            tokens.append(Token(shown, line))
        line += match[0].count("\n")
    return tokens


def top_level(head):
    """Yields (index, token) of the tokens outside of every kind of bracket.

    An opening parenthesis or brace is itself yielded. Angle brackets count as brackets after a
    name, which is right for all declarations.
    """
    closing, index = [], 0
    while index < len(head):
        text = head[index].text
        if closing and text == closing[-1]:
            closing.pop()
        elif text == "operator" and not closing:
            yield index, head[index]
            index += 1  # the symbol is part of the name: operator<, operator(), operator=
            while index + 1 < len(head) and head[index + 1].text != "(":
                index += 1
        elif text in OPENING:
            if not closing:
                yield index, head[index]
            closing.append(OPENING[text])
        elif text == "<" and (not closing or closing[-1] == ">"):
            closing.append(">")
        elif not closing:
            yield index, head[index]
        index += 1


def without_template(head):
    """Drops `template <...>`, attributes and alignas from a declaration."""
    kept, index = [], 0
    while index < len(head):
        text = head[index].text
        following = head[index + 1].text if index + 1 < len(head) else ""
        if (text, following) in (("template", "<"), ("alignas", "("), ("[", "[")):
            index = skip_group(head, index if text == "[" else index + 1)
        else:
            kept.append(head[index])
            index += 1
    return kept


def skip_group(tokens, index):
    """Returns the index after the bracket that closes the one at `index`."""
    pairs = dict(OPENING, **({"<": ">"} if tokens[index].text == "<" else {}))
    closing = []
    while index < len(tokens):
        text = tokens[index].text
        if text in pairs and (text != "<" or closing[-1:] in ([], [">"])):
            closing.append(pairs[text])
        elif closing and text == closing[-1]:
            closing.pop()
        index += 1
        if not closing:
            break
    return index


def type_name(head):
    """Returns the name of the type that a declaration defines, or None."""
    outer = list(top_level(head))
    keys = [at for at, (_, token) in enumerate(outer) if token.text in CLASS_KEYS]
    if not keys:
        return None
    after = [(i, token.text) for i, token in outer[keys[-1] + 1 :]]
    end = len(head)
    for index, text in after:
        if text in ("(", "="):
            return None
        if text in (":", "final"):
            end = index
            break
    name = ""
    for token in head[outer[keys[-1]][0] + 1 : end]:
        inside = name.count("<") > name.count(">")
        joins = inside or token.text in ("::", "<") or name.endswith("::")
        name = name + token.text if joins else token.text
    return name or None


def function_name(head):
    """Returns the name of the function that a declaration defines, or None."""
    for index, token in top_level(head):
        if token.text == "=":
            return None
        if token.text == "(" and index:
            start = index - 1
            words = [head[start].text]
            while start > 1 and head[start - 1].text in ("::", "~", "operator"):
                take = 2 if head[start - 1].text == "::" else 1
                words[:0] = [t.text for t in head[start - take : start]]
                start -= take
            return "".join(words).replace("operator", "operator ")
    return None


def is_member_initializer(head):
    """True at `{` of `Type() : member{...}`: the body is yet to come."""
    parameters = colon = False
    for _, token in top_level(head):
        parameters |= token.text == "("
        colon |= token.text == ":" and parameters
    return colon and head[-1].text not in (")", "}")


class Reader:
    """Walks the tokens of one file and collects its definitions."""

    def __init__(self, text):
        self.tokens = tokenize(text)
        self.definitions = []

    def read(self):
        self.scope(0, (), local=False, member=False)
        return self.definitions

    def scope(self, index, path, local, member):
        """Reads up to the closing brace of a scope and returns the index of the brace."""
        start = index
        while index < len(self.tokens):
            text = self.tokens[index].text
            head = self.tokens[start:index]
            if text == "}":
                return index
            if text == ";" or (
                text == ":"
                and len(head) == 1
                and head[0].text in ("public", "protected", "private")
            ):
                start = index = index + 1
            elif text in ("(", "["):
                index = skip_group(self.tokens, index)
            elif text == "{":
                index, done = self.block(index, head, path, local, member)
                start = index if done else start
            else:
                index += 1
        return index

    def block(self, index, head, path, local, member):
        """Reads the block that a brace opens.

        Returns the index after it, and whether the declaration ends there.
        """
        words = [token.text for token in head]
        if "namespace" in words and "(" not in words:
            names = "".join(words[words.index("namespace") + 1 :])
            inner = path + ((names,) if names else ())
            return self.scope(index + 1, inner, local or not names, member) + 1, True
        if words == ["extern", '""']:
            return self.scope(index + 1, path, local, member) + 1, True
        head = without_template(head)
        name = type_name(head)
        if name:
            end = self.scope(index + 1, path + (name,), local, True)
            self.add("type", path + (name,), head, end, local, member)
            return end + 1, False
        name = function_name(head)
        end = skip_group(self.tokens, index)
        if name is None or is_member_initializer(head):
            return end, False
        self.add("function", path + (name,), head, end - 1, local, member)
        return end, True

    def add(self, kind, path, head, end, local, member):
        last = self.tokens[min(end, len(self.tokens) - 1)].line
        name = "::".join(path)
        self.definitions.append(Definition(kind, name, head[0].line, last, local, member))


def definitions(text):
    """Returns all Definitions of a source, in the order in which they end."""
    return Reader(text).read()
