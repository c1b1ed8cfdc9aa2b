"""What the build takes from the system: Debian's Bazel offline, Open MPI, oneDNN and Catch2.

Bazel (package bazel-bootstrap, version 4.2.3 or 7.7.1) refers to repositories that it would fetch
from the internet. Debian ships most of them as packages. Two are missing, or do not fit version
4.2.3: for these a few lines stand in.
"""

# In /usr/share/bazel. Only version 7 needs skylib and Python's rules, and Debian 12 and 13 lack them.
_PACKAGED = {
    "bazel_skylib": "tools/skylib",
    "rules_java": "rules/java",
    "rules_proto": "rules/proto",
    "rules_python": "rules/python",
}

# A one-file replacement for rules_cc: Debian's copy is written for a newer Bazel than 4.2.3.
_RULES_CC_DEFS = """
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
"""

# `bazel test` resolves this target even when no coverage is asked for.
_COVERAGE_BUILD = """
filegroup(
    name = "coverage_report_generator",
    visibility = ["//visibility:public"],
)
"""

_SYSTEM_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "openmpi",
    hdrs = glob(["openmpi/**/*.h"]),
    defines = ["OMPI_SKIP_MPICXX"],
    includes = ["openmpi"],
    linkopts = {openmpi},
)

cc_library(
    name = "onednn",
    hdrs = glob(["onednn/**/*.h", "onednn/**/*.hpp"]),
    includes = ["onednn"],
    linkopts = {onednn},
)

# Version 2 is a header, version 3 a library too.
cc_library(
    name = "catch2",
    linkopts = {catch2},
)
"""

def _stub_repository_impl(context):
    context.file("WORKSPACE", "")
    for path, text in context.attr.files.items():
        context.file(path, text)

_stub_repository = repository_rule(
    implementation = _stub_repository_impl,
    attrs = {"files": attr.string_dict()},
)

# Flags that link libraries of this folder. Those below /usr/lib are found without -L.
def _link(libraries, folder):
    found = folder.startswith("/usr/lib")
    folders = [] if found else ["-L" + folder, "-Wl,-rpath," + folder]
    return folders + ["-l" + library for library in libraries]

# Returns the words that Open MPI's mpicc says of itself. It needs a HOME.
def _ask_mpicc(context, mpicc, what):
    home = context.os.environ.get("HOME", "/")
    result = context.execute([mpicc, "--showme:" + what], environment = {"HOME": home})
    if result.return_code != 0:
        fail("%s is not Open MPI's: have the folder of Open MPI's mpicc first in PATH" % mpicc)
    return result.stdout.strip().split(" ")

def _system_impl(context):
    mpicc = context.which("mpicc")
    if not mpicc:
        fail("Open MPI is missing: no folder of PATH has mpicc; tools/setup installs it")
    headers = [
        folder
        for folder in _ask_mpicc(context, mpicc, "incdirs")
        if context.path(folder + "/mpi.h").exists
    ]
    if not headers:
        fail("%s names no folder that has mpi.h; tools/setup installs it" % mpicc)
    context.symlink(headers[0], "openmpi")
    onednn = context.os.environ.get("DNNLROOT")
    if onednn:
        context.symlink(onednn + "/include", "onednn")
    catch_is_a_library = context.path("/usr/include/catch2/catch_all.hpp").exists
    context.file("BUILD", _SYSTEM_BUILD.format(
        catch2 = ["-lCatch2"] if catch_is_a_library else [],
        onednn = _link(["dnnl"], onednn + "/lib" if onednn else "/usr/lib"),
        openmpi = _link(_ask_mpicc(context, mpicc, "libs"), _ask_mpicc(context, mpicc, "libdirs")[0]),
    ))

# Open MPI is the one whose mpicc comes first in PATH, as a cluster's module has it. oneDNN is
# DNNLROOT/include and DNNLROOT/lib, if DNNLROOT is set. All else lies where the compiler looks.
_system = repository_rule(
    implementation = _system_impl,
    environ = [
        "DNNLROOT",
        "PATH",
    ],
)

def system_repositories():
    for name, path in _PACKAGED.items():
        native.local_repository(name = name, path = "/usr/share/bazel/" + path)
    _stub_repository(
        name = "rules_cc",
        files = {"BUILD": "", "cc/BUILD": "", "cc/defs.bzl": _RULES_CC_DEFS},
    )
    _stub_repository(
        name = "remote_coverage_tools",
        files = {"BUILD": _COVERAGE_BUILD},
    )
    _system(name = "system")
