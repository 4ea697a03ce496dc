#!/usr/bin/env bash
# Checks all that a machine can check about the sources: formatting, style of Python, licence
# headers, white space, lengths, repeated code, types defined twice, the layers
# of the libraries, and that neither lines nor unclear words become more. Without
# --fast (minutes) it also builds build/dev, compiles each public header by
# itself and runs clang-tidy. Every check runs, also after one has failed.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

status=0
# check COMMAND...: a check that fails makes this script fail at its end.
check() {
  "$@" || status=1
}

format() {
  printf '%s\n' "$sources" | xargs clang-format-22 --dry-run -Werror
}

text() {
  git ls-files -co --exclude-standard -z | xargs -0 python3 utils/check-text.py
}

tidy() {
  printf '%s\n' "$sources" | grep '\.cpp$' |
    xargs run-clang-tidy-22 -quiet -p build/dev
}

# Formatting and lint of Python, by the settings of pyproject.toml.
python_style() {
  install_packages "${python_packages[@]}"
  if [ ! -x .venv/bin/ruff ]; then
    make_venv && .venv/bin/pip install -q "$(grep -o 'ruff==[0-9.]*' pyproject.toml)" || return
  fi
  .venv/bin/ruff check -q . && .venv/bin/ruff format -q --check .
}

install_packages "${lint_packages[@]}"

sources=$(git ls-files -co --exclude-standard '*.h' '*.c' '*.cpp')
check format
check python_style
check text
check python3 utils/check-size.py
check python3 utils/check-odr.py
check python3 utils/check-private.py
check python3 utils/check-layers.py
check python3 utils/check-amount.py

if [ "${1:-}" != --fast ]; then
  install_packages "${build_packages[@]}"
  build dev all
  check python3 utils/check-headers.py build/dev
  check tidy
fi
exit $status
