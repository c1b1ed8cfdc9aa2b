"""Programs in which one source file, or a few, are replaced by others of the same name.

Exercises and the bug zoo are made of these. Only the replaced files are compiled anew; the rest of
the program is the one that is built anyway.
"""

def _edited_source_impl(context):
    edited = context.actions.declare_file(context.label.name + "/" + context.file.source.basename)
    context.actions.expand_template(
        template = context.file.source,
        output = edited,
        substitutions = context.attr.edits,
    )
    return [DefaultInfo(files = depset([edited]), runfiles = context.runfiles([edited]))]

# A copy of `source` with other text in some places: `edits` from old to new. Text that is not found
# changes nothing, so whoever uses the copy has to see to it that the edit can be noticed.
edited_source = rule(
    implementation = _edited_source_impl,
    attrs = {
        "edits": attr.string_dict(mandatory = True),
        "source": attr.label(allow_single_file = True, mandatory = True),
    },
)

def replaced(name, replacements, deps, **kwargs):
    """A library in which `replacements` stand for the files they are made from.

    A program has to name it before the libraries in `deps`. It defines what the original files
    define: so the linker never takes the original files out of these libraries.
    """
    native.cc_library(
        name = name,
        srcs = replacements,
        alwayslink = True,
        # Work in progress: compiled quickly, warnings are shown and are no errors; a subscript out of
        # range ends the program and says so.
        copts = [
            "-O1",
            "-Wno-error",
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            "-D_GLIBCXX_ASSERTIONS",
        ],
        deps = deps,
        **kwargs
    )

def variant(name, replacements, deps, **kwargs):
    """The program of `deps` in which `replacements` stand for the files they are made from."""
    replaced(
        name = name + "_replaced",
        replacements = replacements,
        deps = deps,
        **kwargs
    )
    native.cc_binary(
        name = name,
        deps = [":" + name + "_replaced"] + deps,
        **kwargs
    )
