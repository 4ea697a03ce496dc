"""`pipesched completion`: a script with which a shell completes the command line.

The script holds all options of all verbs and the names that ship, so that no key press starts
Python. Print it again after an update.
"""

from __future__ import annotations

import argparse
import shlex

import pipesched

from .output import write_text

EXAMPLE = """  pipesched completion bash -o pipesched.bash
  pipesched completion zsh -o _pipesched"""

SHELLS = ("bash", "zsh")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `completion`."""
    parser.description = (
        f"{parser.description} bash reads it with `source`; zsh finds it as _pipesched in a folder"
        " of $fpath."
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.add_argument("-o", "--output", metavar="FILE", help="in place of standard output")


# What a word may be


def _values(verb: str, action: argparse.Action) -> str:
    """The shell words after which a value is completed; empty for those of an option that takes
    none.
    """
    if action.nargs == 0:
        return ""
    if action.choices:
        return " ".join(map(str, action.choices))
    if action.dest in ("schedule", "schedules", "families", "axis_family", "family"):
        return "@FAMILIES"
    if verb != "run" and action.dest in ("model", "axis_model"):
        return "@MODELS"
    if action.dest in ("system", "axis_system", "systems"):
        return "@SYSTEMS"
    if action.metavar and any(word in str(action.metavar) for word in ("FILE", "DIR", "PAGE")):
        return "@FILES"
    return "@NOTHING"


def _words(verb: str, action: argparse.Action) -> str:
    """The words of a positional argument."""
    if action.choices:
        return " ".join(map(str, action.choices))
    if "FAMILY" in str(action.metavar) or action.dest == "family":
        return "@FAMILIES @FILES"
    if action.dest == "target":
        from pipesched.paper import TARGETS

        return " ".join([*TARGETS, "all"])
    return "@FILES"


def _cases() -> list[tuple[str, str]]:
    """What may stand where: by `VERB --flag`, by `VERB` for positional arguments, and by `VERB -`
    for the flags of a verb.
    """
    from . import VERBS, VerbParser, parser

    (verbs,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    found = [("", " ".join(VERBS))]
    for verb, each in verbs.choices.items():
        assert isinstance(each, VerbParser)
        each.fill()
        shown = [name for a in each._actions for name in a.option_strings if name[:2] == "--"]
        found.append((f"{verb} -", " ".join(sorted(shown))))
        positional = [_words(verb, a) for a in each._actions if not a.option_strings]
        found.append((verb, " ".join(dict.fromkeys(" ".join(positional).split()))))
        for flag, action in each._option_string_actions.items():
            if values := _values(verb, action):
                found.append((f"{verb} {flag}", values))
    return found


_BASH = """# Completes the command line of pipesched in bash; made by `pipesched completion bash`.
_pipesched() {
  local verb=${COMP_WORDS[1]} word=$2 before=$3 words
  [[ $word == = ]] && word=
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "$(_pipesched_words '')" -- "$word"))
    return
  fi
  words=$(_pipesched_words "$verb $before")
  [[ -z $words && $word == -* ]] && words=$(_pipesched_words "$verb -")
  [[ -z $words ]] && words=$(_pipesched_words "$verb")
  local head=
  if [[ $words == *@* && $word == *,* ]]; then
    head=${word%,*},
    word=${word##*,}
  fi
  local names=${words//@FAMILIES/$_pipesched_families}
  names=${names//@MODELS/$_pipesched_models}
  names=${names//@SYSTEMS/$_pipesched_systems}
  COMPREPLY=($(compgen -P "$head" -W "${names//@[A-Z]*/}" -- "$word"))
  if [[ $words == *@FILES* || $words == *@MODELS* || $words == *@SYSTEMS* ]]; then
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _pipesched pipesched
"""

_ZSH = """#compdef pipesched
# Completes the command line of pipesched in zsh; made by `pipesched completion zsh`.
_pipesched() {
  local verb=${words[2]} word=${words[CURRENT]} before=${words[CURRENT - 1]} found
  if ((CURRENT == 2)); then
    compadd -- ${=$(_pipesched_words '')}
    return
  fi
  found=$(_pipesched_words "$verb $before")
  [[ -z $found && $word == -* ]] && found=$(_pipesched_words "$verb -")
  [[ -z $found ]] && found=$(_pipesched_words "$verb")
  if [[ $found == *@* && $word == *,* ]]; then
    compset -P '*,'
  fi
  local names=${found//@FAMILIES/$_pipesched_families}
  names=${names//@MODELS/$_pipesched_models}
  names=${names//@SYSTEMS/$_pipesched_systems}
  compadd -- ${=${names//@[A-Z]##/}}
  [[ $found == *@(FILES|MODELS|SYSTEMS)* ]] && _files
  return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _pipesched "$@"
elif (( $+functions[compdef] )); then
  compdef _pipesched pipesched
fi
"""


def script(shell: str) -> str:
    """The script for a shell."""
    names = {
        "families": [n for f in pipesched.families().values() for n in (f.name, *f.aliases)],
        "models": list(pipesched.models()),
        "systems": list(pipesched.systems()),
    }
    lists = [f"_pipesched_{name}={shlex.quote(' '.join(all))}" for name, all in names.items()]
    cases = [
        f"    {shlex.quote(place)}) echo {shlex.quote(words)} ;;" for place, words in _cases()
    ]
    table = ["_pipesched_words() {", '  case "$1" in', *cases, "  esac", "}"]
    own = _BASH if shell == "bash" else _ZSH
    head, _, rest = own.partition("\n")
    if shell == "zsh":
        # `##` in patterns needs this option, which is set for the functions of this file alone.
        rest = rest.replace("  local verb", "  setopt local_options extended_glob\n  local verb")
    return "\n".join([head, *lists, *table, rest])


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    write_text(script(arguments.shell), arguments.output)
    return 0
