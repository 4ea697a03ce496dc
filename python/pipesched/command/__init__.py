"""The command `pipesched`. A verb's module in `verbs`, imported when it is called, has `add`, which
adds its arguments to its parser, `run` and `EXAMPLE`. It reads arguments with `options`, writes
with `render` and explains with `explain` which inputs change its answer.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import pipesched

VERBS = {
    "show": "A schedule as a table, a model or a system, or what there is to choose.",
    "simulate": "Schedules timed: one in full, several ranked, and why they differ.",
    "optimize": "The best schedule for given times and memory, and a bound on what is left.",
    "plan": "The best configurations for a model on a number of accelerators, and why.",
    "whatif": "A plan with single changes: the step, tokens and memory, and why they differ.",
    "sweep": "Every combination of values, on all cores; the best schedules of each case.",
    "run": "Train a model by schedules, or export it; the measured step next to the predicted one.",
    "check": "Whether schedules are complete and free of deadlock, and recipes run and fit.",
    "convert": "Schedules of families and files as IR, bytecode, CSV, pictures and traces.",
    "fit": "Fits the curves and latencies of a system to measurements.",
    "reproduce": "Published tables and figures, run again, next to the printed numbers.",
}
"""The purpose of each verb. A verb is the name of its module in `verbs`."""

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit statuses: the answer is no, or there is no answer; the command line is wrong; Ctrl-C."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors may quote characters that a terminal would obey."""

    def error(self, message: str) -> NoReturn:
        from pipesched.support.text import printable_lines

        super().error(printable_lines(message))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuses a value that is not a choice, with the closest one."""
        if action.choices is None or value in action.choices:
            return
        from .options.names import closest_choice

        known = ", ".join(map(str, action.choices))
        near = closest_choice(value, action.choices)
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r}{near} (choose from {known})"
        )


def _name_of(action: argparse.Action) -> str:
    """The name of an argument in messages."""
    flags = (flag for flag in action.option_strings if flag.startswith("--"))
    return next(flags, str(action.metavar or action.dest).partition("|")[0])


SOURCES = ("model", "system", "times")
"""The subject of an answer. Several of one kind look like a comparison."""


class VerbParser(_Parser):
    """The parser of a verb, empty until it parses: then its module is imported and fills it."""

    def error(self, message: str) -> NoReturn:
        """Reports the error, without the usage, whose many lines would hide it, and exits."""
        from pipesched.support.text import printable_lines

        said = printable_lines(message)
        self.exit(MISUSED, f"{self.prog}: error: {said}\n`{self.prog} --help` lists its options\n")

    def fill(self) -> None:
        if self.get_default("run") is None:
            from .options.names import same_as
            from .options.table import rare_of

            verb = import_module(f".verbs.{self.prog.rpartition(' ')[2]}", __name__)
            self.epilog = f"example:\n{verb.EXAMPLE}"
            self.set_defaults(run=verb.run, folders={}, rare=frozenset())
            verb.add(self)
            shown = {action.dest: _name_of(action) for action in self._actions}
            draw = self._option_string_actions.get("--draw")
            shown |= dict.fromkeys(getattr(draw, "kinds", ()), "--draw")
            if setting := rare_of(self):
                listed = "\n".join(setting.lines())
                self.epilog = f"rare options, --set NAME=VALUE:\n{listed}\n\n{self.epilog}"
                rare = setting.rare.items()
                shown |= {r.dest: f"--set {name.replace('_', '-')}" for name, r in rare}
            self.set_defaults(same=same_as(self._option_string_actions), shown=shown)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self.fill()
        self._check_names(args or ())
        self._check_repeated(list(args or ()))
        found, others = super().parse_known_args(args, namespace)
        return found, self._take_later(found, others)

    def _take_later(self, found: Any, others: list[str]) -> list[str]:
        """Adds files and families after options to the earlier ones; returns unknown words."""
        lists = [a for a in self._actions if not a.option_strings and a.nargs in ("*", "+")]
        if not lists or any(word.startswith("-") for word in others):
            return others
        given: list[Any] = getattr(found, lists[0].dest)
        setattr(found, lists[0].dest, [*given, *(self._get_value(lists[0], w) for w in others)])
        return []

    def _check_repeated(self, words: list[str]) -> None:
        """Refuses several models, systems or times; argparse would use the last."""
        given: dict[str, set[str]] = {}
        stores = {
            flag: action
            for action in self._actions
            if type(action) is argparse._StoreAction
            and action.dest.removeprefix("axis_") in SOURCES
            for flag in action.option_strings
        }
        for word, after in zip(words, [*words[1:], ""], strict=False):
            if word == "--":
                break
            flag, is_joined, value = word.partition("=")
            if flag in stores:
                given.setdefault(flag, set()).add(value if is_joined else after)
        for flag, values in given.items():
            if len(values) > 1:
                found = sorted(values)
                takes = "one value"
                if stores[flag].type is not str:
                    takes = f"one list, {','.join(found)}"
                self.error(f"argument {flag}: takes {takes}, found {' and '.join(found)}")

    def _check_names(self, words: Sequence[str]) -> None:
        """Refuses an unknown option, and suggests a known one."""
        from .options.names import meant, unknown

        flag = unknown(words, self._option_string_actions)
        if flag is None:
            return
        near, is_known = meant(flag, self._option_string_actions)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        others = {} if is_known else _filled(parser())
        if verbs := [name for name, p in others.items() if flag in p._option_string_actions]:
            listed = " and ".join(filter(None, (", ".join(verbs[:-1]), *verbs[-1:])))
            what = flag if near else "it"
            hint += f"{' ' if near else '; '}{listed} {'has' if len(verbs) == 1 else 'have'} {what}"
        self.error(f"unrecognized arguments: {flag}{hint}")


def _filled(root: argparse.ArgumentParser) -> dict[str, VerbParser]:
    """The parsers of all verbs, with their arguments."""
    (verbs,) = (a for a in root._actions if isinstance(a, argparse._SubParsersAction))
    found: dict[str, VerbParser] = dict(verbs.choices)
    for each in found.values():
        each.fill()
    return found


class _Version(argparse.Action):
    """Prints the version, which only the extension module knows."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"pipesched {pipesched.__version__}")
        parser.exit()


class _Completion(argparse.Action):
    """Prints a script with which a shell completes the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        from .options.completion import script

        print(script(values, parser, _filled(parser)))
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; see `pipesched --help`."""
    root = _Parser(
        prog="pipesched",
        description="Which pipeline schedule, with which placement, on my cluster, and why.",
        epilog="`pipesched VERB --help` has an example of each.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    root.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        help="print a script with which this shell completes the command line, and exit",
    )
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=VerbParser)
    for verb, summary in VERBS.items():
        verbs.add_parser(
            verb,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    return root


def _run(arguments: argparse.Namespace) -> int:
    from .options.arguments import Run, UsageError  # Imported with the verb's module.
    from .options.names import settle_tensor
    from .options.paths import check

    run: Run = arguments.run
    try:
        if wrong := settle_tensor(arguments):
            raise UsageError(wrong)
        check(arguments)
        return run(arguments)
    except UsageError as error:
        _say(f"pipesched {arguments.verb}: error: {error}")
        return MISUSED
    except pipesched.PipeSchedError as error:
        _say(str(error))
    except UnicodeError as error:
        _say(f"error: a text is not UTF-8: {error}")
    except (OverflowError, RecursionError) as error:
        _say(f"error: a number is too large, or values are nested too deeply: {error}")
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: " if error.filename else ""
        _say(f"error: {place}{error.strerror or error}")
    return FAILED


def _say(message: object) -> None:
    from .render.output import say

    say(str(message))


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Prints warnings at once, since they may be about work that takes long."""
    _say(message)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    try:
        arguments = parser().parse_args(words)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
    from .options.names import flags_of

    arguments.flags = flags_of(words, arguments.same)
    arguments.flags |= {f"--{name.replace('_', '-')}" for name in arguments.rare}
    if "--activations" in arguments.flags:
        arguments.flags |= {"--memory"}  # the option of families
    own = getattr(arguments, "own_options", None) or ()
    arguments.flags |= {f"--{text.partition('=')[0].strip().replace('_', '-')}" for text in own}
    return arguments


def _renew(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """The command line with new names, and remarks on old ones."""
    if not words or words[0].startswith("-"):
        return words, ""
    from .old_names import renew

    return renew(words)


def _drop_output() -> None:
    """Drops buffered output, so that exit flushes none."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_standard_streams() -> None:
    """Opens the null device for standard streams that the caller closed: the next file would get
    the descriptor.
    """
    for stream, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(stream)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def main(argv: Sequence[str] | None = None) -> int:
    _open_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    try:
        words, old = _renew(words)
        if old:
            _say(old)
        arguments = _parse(words)
        with warnings.catch_warnings():
            warnings.simplefilter("always", pipesched.PipeSchedWarning)
            warnings.showwarning = _say_warning
            return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # The reader has closed the pipe (`| head`).
        return FAILED
    except OSError as error:
        _drop_output()
        _say(f"error: standard output: {error.strerror or error}")
        return FAILED
