#!/usr/bin/env bash
# Builds the site of the documentation in build/site/html, with the references of dialects
# and passes, and a picture of each family (utils/stage-site.py). A link or an anchor that
# leads nowhere fails, and so does a page that docs/README.md does not list. --serve shows
# the site at http://localhost:8000.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

export NO_MKDOCS_2_WARNING=1
install_packages "${build_packages[@]}" "${python_packages[@]}"
build release pipesched-doc
.venv/bin/python -c 'import pipesched' 2>/dev/null || install_python
[ -x .venv/bin/mkdocs ] ||
  .venv/bin/pip install -q "$(grep -o 'mkdocs-material==[0-9.]*' pyproject.toml)"
.venv/bin/python utils/stage-site.py build/site build/release/docs
case ${1:-} in
'') .venv/bin/mkdocs build --strict -f build/site/mkdocs.yml ;;
--serve) .venv/bin/mkdocs serve -f build/site/mkdocs.yml ;;
*) fail "$1 is no option of scripts/docs.sh; it has --serve" ;;
esac
