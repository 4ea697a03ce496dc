#!/usr/bin/env bash
# Checks how the sources look: formatting, licence headers, white space, line lengths,
# and, without --fast, clang-tidy (minutes) on the compile commands of build/dev.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_packages "${lint_packages[@]}"

sources=$(git ls-files -co --exclude-standard '*.h' '*.c' '*.cpp')
printf '%s\n' "$sources" | xargs clang-format-22 --dry-run -Werror
git ls-files -co --exclude-standard -z |
  xargs -0 python3 utils/check-text.py

if [ "${1:-}" != --fast ]; then
  install_packages "${build_packages[@]}"
  build dev all
  printf '%s\n' "$sources" | grep '\.cpp$' |
    xargs run-clang-tidy-22 -quiet -p build/dev
fi
