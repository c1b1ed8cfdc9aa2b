"""Programs in which one source file, or a few, are replaced by others of the same name.

Exercises and the bug zoo are made of these. Only the replaced files are compiled anew; the rest of
the program is the one that is built anyway.
"""

def _edited_source_impl(context):
    source = context.file.source
    checked = context.actions.declare_file(context.label.name + "/checked/" + source.basename)
    context.actions.run_shell(
        inputs = [source],
        outputs = [checked],
        arguments = [source.path, checked.path] + context.attr.edits.keys(),
        command = """
text=$(cat "$1" && echo .)
for old in "${@:3}"; do
  [[ $text == *"$old"* ]] || { echo "$1 has no text to edit: ${old@Q}" >&2; exit 1; }
done
cp "$1" "$2"
""",
    )
    edited = context.actions.declare_file(context.label.name + "/" + source.basename)
    context.actions.expand_template(
        template = checked,
        output = edited,
        substitutions = context.attr.edits,
    )
    return [DefaultInfo(files = depset([edited]), runfiles = context.runfiles([edited]))]

# A copy of `source` with other text in some places: `edits` from old to new. Old text that is not
# there is an error: else a wrong solution would be the right one, and a bug none.
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
        deps = deps + ["//kernels/runtime:v3_alone"],
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
