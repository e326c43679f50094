# SPDX-License-Identifier: Apache-2.0
# lit: every .mlir file below this folder is a test; its RUN lines find kdagen-opt, kdagen and FileCheck on PATH.
import os

import lit.formats

config.name = "kdagen"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(lit_config.params["build"], "tests", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(lit_config.params["build"], "bin"), lit_config.params["llvm"], os.environ["PATH"]]
)
