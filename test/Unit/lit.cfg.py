# Runs the GoogleTest executables of unittests/, each test case as one lit test.

import os

import lit.formats

config.name = "PipeSched-Unit"
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.suffixes = []
config.test_source_root = os.path.join(config.pipesched_obj_root, "unittests")
config.test_exec_root = config.test_source_root

if "PIPESCHED_TEST_ALL" in os.environ:
    config.environment["PIPESCHED_TEST_ALL"] = os.environ["PIPESCHED_TEST_ALL"]
if config.pipesched_sanitizer:
    config.environment["ASAN_OPTIONS"] = (
        "detect_container_overflow=0:allow_user_poisoning=0:detect_odr_violation=0"
    )
    config.environment["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
