# The lit suite. `pipesched-opt` in a RUN line always checks that its input survives printing and
# bytecode; `pipesched-opt-raw` is the unwrapped tool, for tests about exactly that, and for sizes
# where it would take long.

import os
import shutil
import subprocess

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "PipeSched"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".c", ".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "data"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.pipesched_obj_root, "test")

llvm_config.with_system_environment(["HOME", "TMP", "TEMP", "PIPESCHED_TEST_ALL"])
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)

tool_dirs = [os.path.join(config.pipesched_obj_root, "bin"), config.llvm_tools_dir]
opt = os.path.join(tool_dirs[0], "pipesched-opt")
tools = [
    ToolSubst("pipesched-opt", command=opt, extra_args=["--verify-roundtrip"]),
    ToolSubst("pipesched-opt-raw", command=opt),
    "pipesched-bench",
    "pipesched-capi-ir-test",
    "pipesched-capi-misuse-test",
    "pipesched-lsp-server",
    "pipesched-optimize",
    "pipesched-reduce",
    "pipesched-run",
    "pipesched-runtime-faults-test",
    "pipesched-runtime-ring-test",
    "pipesched-translate",
    "mlir-opt",
    "mlir-translate",
    "split-file",
]
llvm_config.use_default_substitutions()
llvm_config.add_tool_substitutions(tools, tool_dirs)

config.substitutions += [
    ("%pipesched_opt", opt),
    ("%plugin", config.plugin_path),
    ("%negate_plugin", os.path.join(os.path.dirname(config.plugin_path), "NegatePlugin.so")),
    ("%twice_plugin", os.path.join(os.path.dirname(config.plugin_path), "TwicePlugin.so")),
    ("%llvm_tools", config.llvm_tools_dir),
    ("%version", config.pipesched_version),
    ("%cmake", config.cmake_command),
    ("%ninja", config.ninja_command),
    ("%cc", config.c_compiler),
    ("%cxx", config.cxx_compiler),
    ("%python", config.python_executable),
    ("%project_src", config.pipesched_src_root),
    ("%project_obj", config.pipesched_obj_root),
    ("%data", os.path.join(config.test_source_root, "data")),
    (
        "%cases",
        f"{config.python_executable} "
        + os.path.join(config.test_source_root, "Inputs", "expand-cases.py"),
    ),
]

# Flags of a project that links our libraries: the sanitizers that they have.
sanitize = "-fsanitize=address,undefined -fno-sanitize=vptr" if config.pipesched_sanitizer else ""
config.substitutions += [
    ("%sanitize", sanitize),
    ("%project_flags", f'"-DCMAKE_C_FLAGS={sanitize}" "-DCMAKE_CXX_FLAGS={sanitize}"'),
]

# Tests that have a short form, and take long (docs/Contributing.md).
runs_all = os.environ.get("PIPESCHED_TEST_ALL") == "1"
if runs_all:
    config.available_features.add("all")
# One MPI is enough, and in one preset: programs under it are compiled without sanitizers.
mpis = ("mpich", "openmpi") if runs_all else () if config.pipesched_sanitizer else ("mpich",)
for mpi in mpis:
    needed = (f"mpicc.{mpi}", f"mpirun.{mpi}")
    missing = [name for name in needed if not shutil.which(name, path=config.environment["PATH"])]
    if missing:
        lit_config.note(f"{' and '.join(missing)} not found: the test of {mpi} is left out")
    else:
        config.available_features.add(mpi)
for compiler in ("g++", "gfortran"):
    if shutil.which(compiler, path=config.environment["PATH"]):
        config.available_features.add(compiler)
    else:
        lit_config.note(f"{compiler} not found: the test of its code is left out")
if subprocess.run([config.python_executable, "-c", "import numpy"], capture_output=True).returncode:
    lit_config.note("Python has no NumPy: the test of random stage functions is left out")
else:
    config.available_features.add("numpy")
if config.pipesched_compile:
    config.available_features.add("compile")
if config.pipesched_static:
    config.available_features.add("static")
if config.pipesched_sanitizer:
    config.available_features.add("sanitizer")
    # libMLIR is not instrumented: objects that cross the border must not be judged by annotations
    # that only one side maintains.
    config.environment["ASAN_OPTIONS"] = (
        "detect_container_overflow=0:allow_user_poisoning=0:detect_odr_violation=0"
    )
    config.environment["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
