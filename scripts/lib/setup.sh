# Sourced by the scripts in the folder above: installs what they need, and configures
# and builds a preset. Runs as root or as a user with sudo.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Prefer Debian's cmake, ninja and python3 to any other that the user has.
export PATH="/usr/bin:/bin:$PATH"

build_packages=(
  cmake ninja-build python3
  clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  zlib1g-dev libzstd-dev libgtest-dev libgmock-dev libbenchmark-dev
)
python_packages=(python3-venv python3-dev)
# Further packages that tests run: other compilers, also for extern functions of stages, a browser
# for pages, MPI for sweeps and compiled schedules, a BLAS library that compiled stages load, NumPy
# as the reference for random functions of stages.
test_packages=(g++ gfortran chromium openmpi-bin libopenmpi-dev mpich libmpich-dev libblis4-serial
  python3-numpy zsh)
# Packages that only scripts/test.sh --all needs.
long_test_packages=(texlive-latex-base texlive-latex-recommended texlive-pictures)
# A separate Debian to install the wheel in.
wheel_packages=(debootstrap debian-archive-keyring binutils)
sanitizer_packages=(libclang-rt-22-dev)
lint_packages=(clang-format-22 clang-tidy-22 git)

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "installing packages needs root or sudo: $*"
  fi
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages PACKAGE...: installs the packages that dpkg does not have.
install_packages() {
  local package missing=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    fail "install by hand what Debian 12 calls: ${missing[*]}"
  printf 'Installing %s\n' "${missing[*]}"
  as_root apt-get -q update
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y install --no-install-recommends "${missing[@]}" ||
    fail "apt-get failed; LLVM 22 is in Debian 12's security suite," \
      "which the package sources must name"
}

# build PRESET [TARGET...]: configures if the preset is new or the presets have changed,
# then builds.
build() {
  local preset=$1 target
  shift
  if [ ! build/"$preset"/build.ninja -nt CMakePresets.json ]; then
    cmake --preset "$preset" || return
  fi
  local targets=()
  for target in "$@"; do
    targets+=(--target "$target")
  done
  cmake --build --preset "$preset" "${targets[@]}"
}

# make_venv: creates .venv if it is missing and installs the packages that a build of the package
# requires. It stays there, so that a second build is fast.
make_venv() {
  [ -x .venv/bin/python ] || python3 -m venv .venv || return
  local requires='import tomllib; print("\n".join(
    tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]))'
  .venv/bin/python -c "$requires" | .venv/bin/pip install -q -r /dev/stdin
}

# install_python [EXTRA]: installs the package into .venv, with the extra of pyproject.toml if one
# is given. It compiles only the extension module, on the libraries of build/release, and only if
# scripts/wheel.sh has not: both build in build/python.
install_python() {
  build release PipeSchedInitAll PipeSchedPlanning || return
  make_venv || return
  .venv/bin/pip install -q --no-build-isolation ".${1:+[$1]}" \
    --config-settings=cmake.define.PIPESCHED_PYTHON_TOOLS=OFF \
    --config-settings=cmake.define.PipeSched_DIR="$PWD"/build/release/lib/cmake/PipeSched ||
    return
  # A reader of traces that tests use. It would also install Jupyter, which it reads them without.
  [ "${1:-}" != test ] || .venv/bin/pip install -q --no-deps HolisticTraceAnalysis==0.5.0
}
