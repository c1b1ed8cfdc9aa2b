"""CUDA: the toolkit of this machine, and libraries whose sources hold kernels.

The default build compiles `.cu` files with the C++ compiler against kernels/emulator, so that they
run on any CPU; --config=cuda compiles them with nvcc.
"""

# Code for Ampere and Hopper, and PTX from which newer GPUs compile their own at the first start.
_ARCHITECTURES = {
    "//tools/bazel:for_one_gpu": ["-gencode=arch=compute_90,code=sm_90"],
    "//conditions:default": [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ],
}

# The GPUs in it, as text, for each condition of a select.
ARCHITECTURE_NAMES = {
    condition: " ".join([flag.split("=")[-1] for flag in flags])
    for condition, flags in _ARCHITECTURES.items()
}

# As in .bazelrc: the same arithmetic in host code; no contraction in device code either.
_FLAGS = [
    "-std=c++20",
    "-O3",
    "-fmad=false",
    "-lineinfo",
    # Not in /tmp: in a sandbox every nvcc has the same process number, which names its files there.
    "--objdir-as-tempdir",
    "--expt-relaxed-constexpr",  # constexpr functions may run on the device
    "-Xcompiler=-fPIC,-ffp-contract=off,-fno-math-errno,-fopenmp",
    "-Xcompiler=-Wall,-Wno-psabi",
]

_HOST_ARCHITECTURES = {
    "//tools/bazel:aarch64": ["-Xcompiler=-march=armv8-a"],
    "//conditions:default": ["-Xcompiler=-march=x86-64-v3"],
}

# The compiler calls kernels/emulator/checker/hooks.cc before each access to memory.
HOOKS = [
    "-Wno-unknown-pragmas",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
]

# For target_compatible_with: what runs on the emulator alone. //... passes over it with
# --config=cuda.
EMULATOR_ALONE = select({
    "//tools/bazel:with_cuda": ["//tools/bazel:impossible"],
    "//conditions:default": [],
})

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["nvcc", "cuobjdump"])

# The runtime is linked statically: only cuBLAS and NCCL must be present where the program runs.
cc_library(
    name = "cuda_runtime",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**", "include/nvtx3/**"]),
    defines = ["LADDER_CUDA_EMULATOR=0"],
    includes = ["include"],
    linkopts = ["-L{root}/lib64", "-lcudart_static", "-ldl", "-lpthread", "-lrt"],
)

# Headers alone: the profiler brings the rest.
cc_library(
    name = "nvtx",
    hdrs = glob(["include/nvtx3/**"]),
    includes = ["include"],
)

cc_library(
    name = "cublas",
    linkopts = ["-L{root}/lib64", "-Wl,-rpath,{root}/lib64", "-lcublas", "-lcublasLt"],
    deps = [":cuda_runtime"],
)

cc_library(
    name = "nccl",
    linkopts = ["-L{root}/lib64", "-Wl,-rpath,{root}/lib64", "-lnccl"],
    deps = [":cuda_runtime"],
)

# Headers alone: a program loads the library when it is asked for cuDNN.
cc_library(
    name = "cudnn",
    hdrs = glob(["{cudnn}/cudnn*.h"]),
    includes = ["{cudnn}"],
    linkopts = ["-ldl"],
    deps = [":cuda_runtime"],
)

alias(
    name = "cudnn_attention",
    actual = "@ladder//kernels/cudnn:{attention}",
)
"""

# Returns the folder of cuDNN's headers, or None: beside CUDA's, in CUDNN_PATH, or where Debian and
# NVIDIA's packages for it put them.
def _cudnn_headers(context, root):
    folders = [root + "/include", "/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu"]
    if "CUDNN_PATH" in context.os.environ:
        folders.insert(0, context.os.environ["CUDNN_PATH"] + "/include")
    for folder in folders:
        if context.path(folder + "/cudnn_graph.h").exists:
            return folder
    return None

def _cuda_repository_impl(context):
    nvcc = context.path("/usr/local/cuda/bin/nvcc")
    if not nvcc.exists:
        nvcc = context.which("nvcc")
    if nvcc == None:
        fail("--config=cuda needs the CUDA toolkit, and there is no nvcc in /usr/local/cuda/bin or " +
             "on the PATH. Install it, or build without --config=cuda: the default build runs the " +
             "CUDA kernels on the CPU (--device emulator).")
    root = str(nvcc.dirname.dirname)
    context.symlink(root + "/include", "include")
    # nvcc finds its own folder by the name it is called by.
    context.file("nvcc", "#!/bin/sh\nexec %s \"$@\"\n" % nvcc, executable = True)

    # Only a test needs it, which is skipped without. tools/setup --test brings it where the toolkit
    # has none, and names its folder.
    cuobjdump = context.path(root + "/bin/cuobjdump")
    if not cuobjdump.exists:
        cuobjdump = context.which("cuobjdump")
    if cuobjdump == None and "LADDER_CUDA_TOOLS" in context.os.environ:
        cuobjdump = context.path(context.os.environ["LADDER_CUDA_TOOLS"] + "/cuobjdump")
    script = "#!/bin/sh\nexit 127\n"
    if cuobjdump != None:
        # It looks for nvdisasm on the PATH.
        script = "#!/bin/sh\nPATH=%s:$PATH exec %s \"$@\"\n" % (cuobjdump.dirname, cuobjdump)
    context.file("cuobjdump", script, executable = True)
    cudnn = _cudnn_headers(context, root)
    if cudnn != None and cudnn != root + "/include":
        for header in context.path(cudnn).readdir():
            if header.basename.startswith("cudnn") and header.basename.endswith(".h"):
                context.symlink(header, "cudnn/" + header.basename)
    context.file("BUILD", _BUILD.format(
        attention = "absent" if cudnn == None else "attention",
        cudnn = "include" if cudnn == root + "/include" else "cudnn",
        root = root,
    ))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = [
        "CUDNN_PATH",
        "LADDER_CUDA_TOOLS",
        "PATH",
    ],
    local = True,
)

def _nvcc_objects_impl(context):
    compilation = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in context.attr.deps],
    ).compilation_context
    includes = ["-I."]
    for folder in compilation.quote_includes.to_list() + compilation.includes.to_list():
        includes.append("-I" + folder)
    for folder in compilation.system_includes.to_list():
        includes.append("-isystem=" + folder)
    defines = ["-D" + define for define in compilation.defines.to_list()]
    objects = []
    for source in context.files.srcs:
        object_file = context.actions.declare_file(source.basename + ".pic.o")
        objects.append(object_file)
        context.actions.run(
            executable = context.executable._nvcc,
            arguments = _FLAGS + context.attr.architectures + includes + defines +
                        ["-c", source.path, "-o", object_file.path],
            inputs = depset([source] + context.files.hdrs, transitive = [compilation.headers]),
            outputs = [object_file],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
    return [DefaultInfo(files = depset(objects), runfiles = context.runfiles(objects))]

_nvcc_objects = rule(
    implementation = _nvcc_objects_impl,
    attrs = {
        "architectures": attr.string_list(mandatory = True),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_nvcc": attr.label(
            default = "@cuda//:nvcc",
            executable = True,
            allow_single_file = True,
            cfg = "host",
        ),
    },
)

def _linked_impl(context):
    infos = [dep[CcInfo] for dep in context.attr.deps]
    return [CcInfo(linking_context = cc_common.merge_cc_infos(cc_infos = infos).linking_context)]

# Libraries to link, of which nobody sees a header. What is above is compiled by the same command
# whether CUDA or the emulator is below, and so compiled once.
linked = rule(
    implementation = _linked_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    provides = [CcInfo],
)

def cuda_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """A library whose sources are .cu files. Takes what cc_library takes."""

    # cc_library of this Bazel knows no .cu: a file that includes it stands in, so that messages of
    # the compiler and a debugger still name the .cu file.
    wrappers = []
    for source in srcs:
        wrapper = source.replace("/", "_") + ".cc"
        wrappers.append(wrapper)
        native.genrule(
            name = name + "_" + wrapper,
            outs = [wrapper],
            cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), source),
        )
    _nvcc_objects(
        name = name + "_nvcc",
        architectures = select(_ARCHITECTURES) + select(_HOST_ARCHITECTURES),
        srcs = srcs,
        hdrs = hdrs,
        tags = ["manual"],  # built where --config=cuda asks for it
        deps = deps,
    )
    native.cc_library(
        name = name,
        srcs = select({
            "//tools/bazel:with_cuda": [name + "_nvcc"],
            "//conditions:default": wrappers,
        }) + hdrs,
        textual_hdrs = srcs,
        copts = ["-Wno-unknown-pragmas"],  # unroll is nvcc's
        # What the compiler calls with --config=emulator-check.
        deps = deps + select({
            "//tools/bazel:emulator_check": ["//kernels/emulator/checker"],
            "//conditions:default": [],
        }),
        **kwargs
    )

def observed_cuda_library(name, of, srcs, hdrs = [], deps = []):
    """The emulator's build of the kernels in cuda_library `of`, with hooks (kernels/emulator/access.h).

    A program has to name it before all libraries that use `of`: then the linker takes no kernel from
    there. std::fma is a function call here, so that it can be counted; the result is the same.
    """
    native.cc_library(
        name = name,
        srcs = [source.replace("/", "_") + ".cc" for source in srcs] + hdrs,
        textual_hdrs = srcs,
        copts = HOOKS + ["-mno-fma"],
        alwayslink = True,
        tags = ["emulator-check"],
        # aarch64 compilers have no such flag: there std::fma is always an instruction.
        target_compatible_with = EMULATOR_ALONE + select({
            "//tools/bazel:aarch64": ["//tools/bazel:x86_64_alone"],
            "//conditions:default": [],
        }),
        deps = deps + [":" + of],
    )
