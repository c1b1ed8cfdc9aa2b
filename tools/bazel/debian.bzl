"""Everything that is particular to Debian's Bazel (package bazel-bootstrap 4.2.3), offline.

Bazel itself refers to four repositories that it would fetch from the internet. Debian ships two of
them as packages; the other two need only a name each, so a few lines of our own stand in.
"""

_RULES = "/usr/share/bazel/rules"

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

# Open MPI's headers lie outside of the compiler's own folders.
_OPENMPI = "/usr/lib/x86_64-linux-gnu/openmpi/include"
_OPENMPI_BUILD = """
cc_library(
    name = "openmpi",
    hdrs = glob(["**/*.h"]),
    defines = ["OMPI_SKIP_MPICXX"],
    includes = ["."],
    linkopts = ["-lmpi"],
    visibility = ["//visibility:public"],
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

def debian_repositories():
    native.local_repository(name = "rules_java", path = _RULES + "/java")
    native.local_repository(name = "rules_proto", path = _RULES + "/proto")
    _stub_repository(
        name = "rules_cc",
        files = {"BUILD": "", "cc/BUILD": "", "cc/defs.bzl": _RULES_CC_DEFS},
    )
    _stub_repository(
        name = "remote_coverage_tools",
        files = {"BUILD": _COVERAGE_BUILD},
    )
    native.new_local_repository(
        name = "openmpi",
        path = _OPENMPI,
        build_file_content = _OPENMPI_BUILD,
    )
