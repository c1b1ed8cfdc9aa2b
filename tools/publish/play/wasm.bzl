"""Sources of this tree as a WebAssembly module, compiled by Debian's clang."""

_FLAGS = [
    "--target=wasm32-wasi",
    "-mexec-model=reactor",  # a library: no main
    "-std=c++20",
    "-O2",
    "-ffp-contract=off",  # as in .bazelrc
    "-fwasm-exceptions",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-nostdinc++",
    "-isystem/usr/lib/llvm-16/include/wasm32-wasi/c++/v1",
    "-I.",
    "-lc++",
    "-lc++abi",
    "-Wl,--gc-sections,--strip-all",
]

def _wasm_module_impl(context):
    headers = [dep[CcInfo].compilation_context.headers for dep in context.attr.deps]
    module = context.actions.declare_file(context.label.name + ".wasm")
    exports = ["-Wl,--export=" + name for name in context.attr.exports]
    context.actions.run_shell(
        command = """
            { command -v clang-16 && command -v wasm-ld-16 && ls -d /usr/lib/llvm-16/include/wasm32-wasi; } &>/dev/null || {
              echo "%s needs Debian's packages clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32" \
                "libc++-16-dev-wasm32 libc++abi-16-dev-wasm32: tools/setup --site installs them" >&2
              exit 1
            }
            exec clang-16 "$@"
        """ % context.label,
        arguments = _FLAGS + exports + [source.path for source in context.files.srcs] + ["-o", module.path],
        inputs = depset(context.files.srcs, transitive = headers),
        outputs = [module],
        mnemonic = "Wasm",
        progress_message = "Compiling %s to WebAssembly" % context.label,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([module]))]

# `deps` are libraries whose headers the sources include; only what is in `srcs` is compiled.
wasm_module = rule(
    implementation = _wasm_module_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "exports": attr.string_list(mandatory = True),
    },
)
