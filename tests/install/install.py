#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenon as its users have it: installed into an empty folder, then used as the READMEs say.

    install.py BUILD SOURCE CC CXX

Nothing but the installed files is on any search path. Prints `N passed, N failed, N skipped`.
"""
import gzip
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STRICT = ["-Wall", "-Wextra", "-Werror"]
STRICT_CXX = [*STRICT, "-Wold-style-cast"]
TRAIN_ROOMS = ("nn", "optim", "files", "data", "progress")  # of libtenon-train


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class House:
    """An installed Tenon and the environment of a program that uses it."""

    def __init__(self, build, source, cc, cxx, root):
        self.build, self.source, self.root = Path(build), Path(source), Path(root)
        self.cc, self.cxx = shlex.split(cc), shlex.split(cxx)
        self.meson = shutil.which("meson")
        if not self.meson:
            raise Skip("meson is not there")
        if not shutil.which("pkg-config"):
            raise Skip("pkg-config is not there")
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("TENON_", "MESON", "PKG_CONFIG", "NINJA")) and k != "LD_LIBRARY_PATH"}
        self.environment["XDG_CACHE_HOME"] = str(self.root / "cache")
        self.environment["CC"], self.environment["CXX"] = cc, cxx
        self.install()
        self.library = Path(self.config("--variable=libdir")[0]).resolve()

    def install(self):
        """Installs into a tree below the root."""
        self.run([self.meson, "install", "-C", str(self.build), "--no-rebuild", "--quiet", "--destdir", str(self.root / "tree")])
        self.use_tree(self.root / "tree")

    def use_tree(self, tree):
        """Makes what was installed into a tree the one that programs find."""
        files = list(tree.rglob("tenon*.pc"))
        prefix = re.search(r"^prefix=(.*)$", files[0].read_text(), re.M).group(1)
        if prefix.startswith("${pcfiledir}"):  # the tree was moved as a whole, and nothing has to change
            self.prefix = Path(prefix.replace("${pcfiledir}", str(files[0].parent))).resolve()
        else:  # of a package, which is not moved but here
            self.prefix = tree / prefix.lstrip("/")
            for file in files:
                file.write_text(re.sub(r"^prefix=.*$", f"prefix={self.prefix}", file.read_text(), flags=re.M))
        self.environment["PKG_CONFIG_PATH"] = str(files[0].parent)
        self.environment["PATH"] = f"{self.prefix / 'bin'}:{os.environ['PATH']}"

    def run(self, command, folder=None, expect=0, given="", **environment):
        done = subprocess.run([str(c) for c in command], cwd=folder, env={**self.environment, **environment}, input=given,
                              capture_output=True, text=True, errors="replace", timeout=900)
        if done.returncode != expect:
            raise Failure(f"{shlex.join(map(str, command))}\nstatus {done.returncode}, expected {expect}\n"
                          f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr if expect else done.stdout

    def config(self, *arguments, package="tenon"):
        return shlex.split(self.run(["pkg-config", *arguments, package]))

    def folder(self, name):
        folder = self.root / name
        folder.mkdir(mode=0o755)
        return folder

    def copy(self, example, name):
        """A copy of an example alone, so that nothing of the checkout is beside it."""
        folder = self.root / name
        shutil.copytree(self.source / "examples" / example, folder)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        return folder

    def program(self, source, name, *, language="c", standard="c++17", libraries=()):
        """Compiles one file with strict warnings against the installed headers and gives the program."""
        compiler, strict = (self.cc, ["-std=c17", *STRICT]) if language == "c" else (self.cxx, [f"-std={standard}", *STRICT_CXX])
        program = source.parent / name
        used = set(re.findall(r"<tenon/([\w.]+)>", source.read_text()))
        uses_train = used & {p.name for room in TRAIN_ROOMS for p in (self.source / room / "include/tenon").iterdir()}
        package = "tenon-train" if uses_train else "tenon"
        self.run([*compiler, *strict, *self.config("--cflags", package=package), source,
                  *self.config("--libs", package=package), *libraries, "-o", program])
        return program

    def use(self, program, *arguments, **environment):
        return self.run([program, *arguments], LD_LIBRARY_PATH=str(self.library), **environment)


def expect(condition, what, text=""):
    if not condition:
        raise Failure(f"{what}\n{text}")


SMOOTH = ["tensor([1.0635, 3.0000, 0.8466], dtype=torch.float64)", "gradient is right"]


def check_tree(house):
    """The README promises these: headers, library, plugins with manifests, the command."""
    plugins = Path(house.config("--variable=plugindir")[0]).resolve()
    expect(plugins.is_relative_to(house.prefix), "plugindir moves with the prefix", str(plugins))
    for name in ("cpu", "reference"):
        expect((plugins / f"{name}.json").is_file(), f"manifest of {name}", str(sorted(plugins.glob("*"))))
    headers = {p.name for room in ("abi", *TRAIN_ROOMS) for p in (house.source / room / "include/tenon").glob("*.h")}
    installed = {p.name for p in (house.prefix / "include/tenon").glob("*.h")}
    expect(headers == installed, "all headers and no others", str(headers ^ installed))
    expect(list(house.library.glob("libtenon.so*")), "the library", str(house.library))
    devices = house.run(["tenon", "devices"])
    expect("cpu" in devices, "the command finds its libraries and the processor", devices)
    report = house.use("tenon", "doctor")
    expect(str(plugins) in report, "plugins come from the moved tree", report)
    expect(f"{house.build}/plugins" not in report and f"{house.build}/tenon" not in report, "nothing comes from the build", report)


def anchors(text):
    """The anchors of the headings of a document, as code hosts make them."""
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(house):
    """Every link of an installed document leads to an installed file, and to a heading of it."""
    root, links = house.prefix / "share/doc/tenon", 0
    for document in sorted(root.rglob("*.md")):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", document.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            expect("://" not in link, "documents link to what is installed", f"{document}: {link}")
            target = (document.parent / path).resolve() if path else document
            expect(target.is_relative_to(root.resolve()) or not path, "a link stays in the documents", f"{document}: {link}")
            expect(target.is_file(), "a link leads to a file", f"{document}: {link}")
            expect(not anchor or anchor in anchors(target.read_text()), "a link leads to a heading", f"{document}: {link}")
            links += 1
    expect(links > 30, "there are links", str(links))


def check_headers(house):
    """Each header stands alone, in C and C++, with every warning an error."""
    folder = house.folder("headers")
    for header in sorted((house.prefix / "include/tenon").glob("*.h")):
        for compiler, options, ending in ((house.cc, ["-std=c17"], "c"), (house.cxx, ["-std=c++17"], "cpp")):
            for define in ("", "#define TN_PLUGIN\n"):
                file = folder / f"one.{ending}"
                file.write_text(f"{define}#include <tenon/{header.name}>\nint nothing;\n")
                house.run([*compiler, *options, *STRICT, *house.config("--cflags"), "-fsyntax-only", file])


def check_operators_meson(house):
    folder = house.copy("operators", "operators_meson")
    house.run([house.meson, "setup", "build"], folder)
    house.run(["ninja", "-C", "build"], folder)
    output = house.use(folder / "build/use", folder / "build/libsmooth.so")
    expect(output.splitlines() == SMOOTH, "what use prints", output)


def check_operators_cc(house):
    folder = house.copy("operators", "operators_cc")
    house.run([*house.cc, "-shared", "-fPIC", *house.config("--cflags"), "smooth.c", "-lm", "-o", "libsmooth.so"], folder)
    house.run([*house.cc, *house.config("--cflags"), "use.c", *house.config("--libs"), "-o", "use"], folder)
    output = house.use(folder / "use", folder / "libsmooth.so")
    expect(output.splitlines() == SMOOTH, "what use prints", output)


PROGRAM = """#include <stdio.h>
#include <tenon/nn.h>

int main(void)
{
    tn_context *ctx;
    if (tn_context_create(NULL, &ctx)) return puts(tn_last_error()->message), 1;
    tn_scope *s = tn_scope_open(ctx);
    const char *text = tn_format(s, tn_mul_scalar(s, tn_ones(s, TN_INTS(2)), 3), NULL);
    puts(text ? text : tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_module *net = tn_module_create(ctx, "net", NULL);
    int made = net != NULL;
    tn_module_destroy(net);
    tn_context_destroy(ctx);
    return !made;
}
"""
LOST = """#include <stdio.h>
#include <tenon/tenon.h>

int main(void)
{
    tn_context *ctx;
    if (tn_context_create(NULL, &ctx)) return puts(tn_last_error()->message), 2;
    if (tn_device_choose(ctx, NULL, NULL) & TN_DEVICE_MISSING) return puts(tn_last_error()->message), 1;
    return 0;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(client C)
find_package(tenon 0.1 REQUIRED)
add_executable(shared client.c)
target_link_libraries(shared tenon::train)
add_executable(whole plain.c)
target_link_libraries(whole tenon::static)
add_executable(lost lost.c)
target_link_libraries(lost tenon::static)
if(NOT EXISTS "${TENON_PLUGIN_DIR}/cpu.json")
  message(FATAL_ERROR "no plugins in ${TENON_PLUGIN_DIR}")
endif()
find_package(tenon 7.0 QUIET)
if(tenon_FOUND)
  message(FATAL_ERROR "version 7.0 was found")
endif()
find_package(tenon 0.1 REQUIRED COMPONENTS train static OPTIONAL_COMPONENTS nothing)
if(NOT tenon_train_FOUND OR NOT tenon_static_FOUND OR tenon_nothing_FOUND)
  message(FATAL_ERROR "components: ${tenon_train_FOUND} ${tenon_static_FOUND} ${tenon_nothing_FOUND}")
endif()
find_package(tenon 0.1 QUIET COMPONENTS nothing)
if(tenon_FOUND)
  message(FATAL_ERROR "the component 'nothing' was found")
endif()
"""
REFUSED_CMAKE = {"COMPONENTS nothing)\n": "tenon has no component 'nothing' (there are: tenon, train, static)",
                 ")\nadd_executable(both client.c)\ntarget_link_libraries(both tenon::train tenon::static)\n": "TENON_LIBRARY"}


def plain(program):
    """PROGRAM without the training library."""
    return re.sub(r"    tn_module \*.*?\n(?=    tn_context_destroy)", "", program, flags=re.S).replace("return !made", "return 0") \
        .replace("tenon/nn.h", "tenon/tenon.h")


def plugins_of(house):
    """For a program that has the library inside: it looks for plugins, and for what probes them, where Tenon was configured
    for, which is not where the tree lies here."""
    return {"TENON_PLUGIN_PATH": str(house.library / "tenon/plugins"), "TENON_PLUGIN_PROBE": "never"}


def check_cmake(house):
    """find_package(tenon) gives targets for the shared and the static library, wherever the tree lies."""
    cmake = shutil.which("cmake")
    expect(cmake, "cmake is there (./dev test installs it)")
    folder = house.folder("cmake")
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "client.c").write_text(PROGRAM)
    (folder / "plain.c").write_text(plain(PROGRAM))
    (folder / "lost.c").write_text(LOST)
    house.run([cmake, "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={house.prefix}"], folder)
    house.run([cmake, "--build", "build"], folder)
    expect(house.run([folder / "build/shared"], folder) == "tensor([3., 3.])\n", "the program with the shared libraries")
    expect(house.run([folder / "build/whole"], folder, **plugins_of(house)) == "tensor([3., 3.])\n", "the program that is whole")
    lost = house.run([folder / "build/lost"], folder, expect=1, TENON_PLUGIN_PATH=str(folder))
    for part in (f"'{folder.resolve()}' has no manifest of a plugin", "TENON_PLUGIN_PATH", "plugin_path", "the library is part of this program"):
        expect(part in lost and "doctor" not in lost, f"a program that is whole says where it searches: {part}", lost)
    for end, text in REFUSED_CMAKE.items():
        (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(client C)\nfind_package(tenon REQUIRED {end}")
        refused = house.run([cmake, "-S", ".", "-B", "refused", f"-DCMAKE_PREFIX_PATH={house.prefix}"], folder, expect=1)
        expect(text in refused, "what CMake refuses", refused)
    guide = re.search(r"^```cmake\n(.*?)^```", (house.source / "docs/write-an-application.md").read_text(), re.M | re.S)[1]
    (folder / "CMakeLists.txt").write_text(guide)
    (folder / "main.c").write_text(PROGRAM)
    house.run([cmake, "-S", ".", "-B", "guide", f"-DCMAKE_PREFIX_PATH={house.prefix}"], folder)
    house.run([cmake, "--build", "guide"], folder)
    expect(house.run([folder / "guide/app"], folder) == "tensor([3., 3.])\n", "the guide's program")


def check_static(house):
    """With the static library alone, by pkg-config; the program needs no libtenon.so."""
    folder = house.folder("static")
    (folder / "client.c").write_text(plain(PROGRAM))
    libraries = ["-l:libtenon.a" if word == "-ltenon" else word for word in house.config("--libs", "--static")]
    house.run([*house.cc, *house.config("--cflags"), "client.c", *libraries, "-o", "client"], folder)
    needed = house.run(["readelf", "-d", "client"], folder)
    expect("libtenon" not in needed, "it does not need the shared library", needed)
    output = house.run([folder / "client"], folder, **plugins_of(house))
    expect(output == "tensor([3., 3.])\n", "the program's output", output)


def check_lists(house):
    """Lists of a program reach the library at every level of optimisation."""
    folder = house.folder("lists")
    shutil.copy(HERE / "lists.c", folder)
    for level in ("-O0", "-O1", "-O2", "-O3", "-Os", "-Og"):
        house.run([*house.cc, *STRICT, level, "lists.c", *house.config("--cflags", "--libs"), "-o", "lists"], folder)
        output = house.use(folder / "lists", **plugins_of(house)).split()
        expect(output == ["49", "16", "36", "4", "4", "12", "20", "80", "5", "3", "12"], f"lists at {level}", str(output))


def check_python(house):
    """The binding of the examples, which no compiler has seen."""
    folder = house.prefix / "share/doc/tenon/examples/python"
    output = house.use(sys.executable, "-B", folder / "fit.py", **plugins_of(house))
    lines = output.splitlines()
    expect(re.fullmatch(r"y = 2\.000 x \+ 1\.000, loss \d\.\de-\d+", lines[0]), "the fit", output)
    expect(lines[1] == "gradient 60.0" and "cannot be multiplied (4x1 and 4x1)" in lines[2] and lines[3] == "ValueError: from a hook",
           "hooks and errors", output)
    output = house.use(sys.executable, "-B", HERE / "binding.py", folder, **plugins_of(house))
    expect(output == "a binding keeps the rules\n", "errors, exceptions, forks", output)
    by_path = {"TENON_LIBRARY": str(house.library / "libtenon-train.so.0"), **plugins_of(house)}
    output = house.run([sys.executable, "-B", folder / "fit.py"], **by_path)
    expect(output.splitlines()[1:] == lines[1:], "libraries by their path", output)


def check_pages(house):
    """Every command has a manual page with its options, and the shells complete commands, options and files."""
    commands = re.findall(r"^  ([\w-]+) ", house.use("tenon", "--help"), re.M)
    share = house.prefix / "share"
    pages = {p.name for p in (share / "man/man1").glob("*")}
    expect(pages == {"tenon.1", *(f"tenon-{c}.1" for c in commands)}, "a page for each command", str(pages))
    page = (share / "man/man1/tenon.1").read_text()
    expect(all(name in page for name in ("TENON_ALLOC_CONF", "OMP_NUM_THREADS", "XDG_CACHE_HOME")), "variables of the environment", page)
    for command in commands:
        page = (share / f"man/man1/tenon-{command}.1").read_text().replace("\\-", "-")
        options = re.findall(r"^  (--[\w-]+)", house.use("tenon", command, "--help"), re.M)
        expect(all(f"\\fB{o}\\fR" in page for o in options), f"options of {command}", page)
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tenon; printf "%s\\n" "${COMPREPLY[@]}"'
    for words, expected in ((["tenon", "go"], ["golden"]), (["tenon", "golden", "--fi"], ["--filter"]),
                            (["tenon", "check", "--json", "/us"], ["/usr"]), (["tenon", "check", "--seed", ""], [""]),
                            (["tenon", "new-app", "--from", "gpt2"], ["gpt2", "gpt2_cpp"]), (["tenon", "file", "conv"], ["convert"]),
                            (["tenon", "file", "compare", "conv"], [""]), (["tenon", "new-plugin", "--memory", ""], ["host", "opaque"])):
        done = house.run(["bash", "-c", ask, "bash", share / "bash-completion/completions/tenon", *words]).splitlines()
        expect(done == expected, f"completion of {words}", str(done))
    for shell, file in (("zsh", "zsh/site-functions/_tenon"), ("fish", "fish/vendor_completions.d/tenon.fish")):
        expect("--filter" in (share / file).read_text() or "-l filter" in (share / file).read_text(), f"options for {shell}")
        if shutil.which(shell):
            house.run([shell, "-n", share / file])


def check_allocator(house):
    """The example's commands: by the program's own call, and by the environment for a program that does not ask for it."""
    folder = house.copy("allocator", "allocator")
    house.run([*house.cc, *STRICT, "-shared", "-fPIC", "counting.c", "-o", "libcounting.so"], folder)
    program = house.program(folder / "use.c", "use")
    output = house.use(program, folder / "libcounting.so")
    expect(output.startswith("tensor(1000.)\n"), "what use prints", output)
    refused = house.run([program, folder / "libcounting.so"], expect=1, LD_LIBRARY_PATH=str(house.library), COUNTING_LIMIT="100")
    expect("cpu is out of memory. Tried to allocate 3.91 KiB." in refused, "an allocator that gives nothing", refused)
    twice = house.run([program, folder / "libcounting.so"], expect=1, LD_LIBRARY_PATH=str(house.library),
                      TENON_ALLOC_CONF=f"pluggable_allocator:cpu={folder}/libcounting.so:counting_alloc:counting_free")
    expect("Can't swap an already initialized allocator" in twice, "the environment's was there first", twice)


def new_plugin(house, name, *options):
    """What `tenon new-plugin` writes into a folder that it makes."""
    folder = house.root / f"plugin_{name}"
    house.use("tenon", "new-plugin", "--name", name, "--dir", folder, *options)
    return folder


def built(house, folder):
    """The folder, built with meson alone against the installed copy."""
    house.run([house.meson, "setup", "build", "--werror"], folder)
    house.run(["ninja", "-C", "build"], folder)
    return folder / "build"


def check_new_operators(house):
    """What `tenon new-operators` writes has the new name everywhere, builds, and passes its own check."""
    folder = house.root / "operators_zeta"
    house.use("tenon", "new-operators", "--name", "zeta", "--dir", folder, "--license", "MIT")
    expect({p.name for p in folder.iterdir()} == {".gitignore", "README.md", "check.sh", "meson.build", "zeta.c", "zeta.json", "use.c"}, "the files")
    for path in folder.iterdir():
        text = path.read_text()
        expect("mylib" not in text and "libsmooth" not in text and "Apache" not in text, f"{path.name}: names of the template", text)
    output = house.use("sh", folder / "check.sh")
    expect(all(line in output for line in SMOOTH), "what use prints", output)
    expect("zeta::smooth_max" in output and " 0 not as expected" in output, "what the check prints", output)


def small_mnist(folder):
    """Files of the form of Fashion-MNIST: 128 images to train on, 8 to test."""
    folder.mkdir(mode=0o755)
    for part, count in (("train", 128), ("t10k", 8)):
        for kind, head, item in (("images-idx3", struct.pack(">BBBBIII", 0, 0, 8, 3, count, 28, 28), 784), ("labels-idx1", struct.pack(">BBBBI", 0, 0, 8, 1, count), 1)):
            data = bytes(i // item % 10 for i in range(count * item))
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + data))
    return folder


def check_new_app(house):
    """Each template builds alone under a new name, and does what its README says."""
    text = house.root / "text"
    text.write_text("the core does the semantics, a plugin the arithmetic. " * 100)
    weights = house.root / "app_gpt2/gpt2.safetensors"
    runs = {"classify": [[]], "gpt2": [[text, "3"]], "decode": [[weights, "5"]], "char_lstm": [[text, "3"]],
            "resnet": [[small_mnist(house.root / "mnist"), "1"]], "data_parallel": [["--float64", "reference:0", "reference:1"]],
            "gpt2_cpp": [[text, "3"]]}
    for template, calls in runs.items():
        folder = house.root / f"app_{template}"
        house.use("tenon", "new-app", "--name", "zeta", "--from", template, "--dir", folder, "--license", "MIT")
        expect("Apache" not in next(folder.glob("main.*")).read_text(), "the licence")
        expect("| to change | where |" in (folder / "README.md").read_text(), "README.md says what to change")
        program = built(house, folder) / "zeta"
        device = {"TENON_REFERENCE_DEVICES": "2"} if template == "data_parallel" else {"TENON_DEVICE": "cpu"}
        outputs = [house.run([program, *call], folder, given="the core\nplugins\n", LD_LIBRARY_PATH=str(house.library), **device) for call in calls]
        if template == "classify":
            accuracy = re.search(r"^accuracy: ([\d.]+) %$", outputs[0], re.M)
            expect(accuracy and float(accuracy[1]) > 97, "it learns", outputs[0])
            expect((folder / "loss.svg").read_text().startswith("<svg") and (folder / "weights.safetensors").is_file(), "its files")
        if template == "gpt2":
            expect((folder / "loss.svg").read_text().startswith("<svg") and weights.is_file(), "its files")
        if template == "decode":
            expect(outputs[0].startswith("the core") and "\nplugins" in outputs[0], "it goes on with each line", outputs[0])
        if template == "data_parallel":
            apart = re.search(r"relative difference ([\d.e+-]+)$", outputs[0], re.M)
            expect(apart and float(apart[1]) < 1e-10, "two devices learn what one does", outputs[0])
        if template == "gpt2_cpp":
            expect((folder / "gpt2.safetensors").stat().st_size == weights.stat().st_size, "the weights of gpt2's names and sizes")
            nothing = house.run([program], folder, expect=1, LD_LIBRARY_PATH=str(house.library), **device)
            expect("zeta: usage: TEXT [STEPS]" in nothing, "a call without a text is an error", nothing)
            nowhere = house.run([program], folder, expect=1, LD_LIBRARY_PATH=str(house.library), TENON_DEVICE="cda")
            expect(re.search(r"main\.cpp:\d+: .*device cda", nowhere), "a missing device has the program's place", nowhere)
        if template == "resnet":
            expect(re.search(r"^test accuracy: [\d.]+ %$", outputs[0], re.M) and (folder / "resnet18.safetensors").is_file(), "it trains", outputs[0])
        if template == "char_lstm":
            expect(len(outputs[0]) >= 100, "it writes 300 bytes", outputs[0])
    default = house.root / "app_default"
    house.use("tenon", "new-app", "--name", "plain", "--dir", default)
    expect((default / "main.c").read_text() == (house.source / "examples/classify/main.c").read_text(), "the default")


def device_works(house, name, **environment):
    program = house.root / "on_device/on_device"
    if not program.exists():
        program.parent.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(HERE / "on_device.c", program.parent)
        house.program(program.with_suffix(".c"), "on_device", libraries=["-lm"])
    devices = house.use("tenon", "devices", **environment)
    expect(f"{name}:0" in devices, f"{name}: tenon devices lists it", devices)
    output = house.use(program, f"{name}:0", **environment)
    expect(output.endswith("well\n"), f"the program on {name}:0", output)


def check_plugin_example(house):
    """The folders of the two examples alone are plugins, as they lie in the tree."""
    for example in ("plugin", "plugin-opaque"):
        folder = house.copy(example, f"{example}_example")
        house.run([house.meson, "setup", "build"], folder)
        house.run(["ninja", "-C", "build"], folder)
        device_works(house, "acme", TENON_PLUGIN_ADD=str(folder / "build"))


def sources_of(folder):
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def check_plugin_cc(house):
    """By hand, with every warning an error; the template's name is gone, and a template has at most 400 lines of C."""
    for name, options in (("zeta_9", ["--vendor", "Zeta & Sons"]), ("eta", ["--memory", "opaque", "--vendor", "Zeta & Sons"])):
        check_by_hand(house, name, new_plugin(house, name, *options, "--license", "MIT"))


def check_by_hand(house, name, folder):
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        text = path.read_text()
        expect("acme" not in text.lower() and "acme" not in path.name, f"{path.name}: the template's name", text[:300])
        expect("Apache" not in text, f"{path.name}: the template's licence", text[:300])
    expect(f'"{name}", "0.1", "Zeta & Sons"' in (folder / "plugin.c").read_text(), "the block has name and vendor")
    lines = sum(len(path.read_text().splitlines()) for path in sources_of(folder))
    expect(lines <= 400, f"{name}: at most 400 lines of C", str(lines))
    house.run([*house.cc, "-shared", "-fPIC", "-fvisibility=hidden", "-O2", *STRICT, "-Wno-unused-parameter",
               *house.config("--cflags"), "-o", f"libtenon_{name}.so", *sorted(folder.glob("*.c")), "-lm", "-lpthread"], folder)
    device_works(house, name, TENON_PLUGIN_ADD=str(folder))


def check_plugin_sources(house):
    """The plugins that are installed as source build alone, as their READMEs say, and pass their first tier."""
    for name in ("null", "reference"):
        folder = house.folder(f"{name}_source")
        for path in (house.prefix / "share/doc/tenon/plugins" / name).iterdir():
            shutil.copy(path, folder)
        library = f"./libtenon_{name}.so"
        house.run([*house.cc, "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", *house.config("--cflags"), "-o", library,
                   *sorted(folder.glob("*.c")), "-lm", "-lpthread"], folder)
        report = json.loads(house.run(["tenon", "check", library, "--tier", "0", "--json", "-"], folder,
                                      LD_LIBRARY_PATH=str(house.library), TENON_NULL_DEVICES="1"))
        expect(len(report["cases"]) > 60 and all(c["as_expected"] for c in report["cases"]), f"{name}: tier 0", str(report)[-2000:])


def check_plugin_meson(house):
    """As its README says, in an empty folder: green at once. The host template is then installed and found by itself."""
    for name, options in (("array", []), ("queue", ["--memory", "opaque"])):  # names that the sources have, too
        began = time.monotonic()
        folder = new_plugin(house, name, *options)
        output = house.use("sh", folder / "check.sh")  # tiers 0 and 1
        print(f"{name}: from nothing to green in {time.monotonic() - began:.0f} s, "
              f"{sum(len(p.read_text().splitlines()) for p in sources_of(folder))} lines of C")
        expect("passed: " in output and ", 0 not as expected" in output, "check.sh", output[-2000:])
        device_works(house, name, TENON_PLUGIN_ADD=str(folder / "build"))
    folder = house.root / "plugin_array"
    house.run(["ninja", "-C", "build", "install"], folder)
    device_works(house, "array")
    report = house.use("tenon", "doctor")
    expect("loaded   array 0.1 (Array): 1 device 'array'" in report, "doctor names it", report)


def steps_of(workflow):
    """The steps of a workflow as dictionaries of texts: as much of YAML as the generated file has."""
    lines = workflow.read_text().splitlines()
    steps, key = [], None
    for line in lines[lines.index("    steps:") + 1:]:
        if m := re.fullmatch(r"(      - |        )([\w-]+): ?(.*)", line):
            if m[1].endswith("- "):
                steps.append({})
            key = m[2]
            steps[-1][key] = "" if m[3] == "|" else m[3]
        else:
            expect(line.startswith(" " * 10) and key, f"{workflow.name}: a line that is no step's", line)
            steps[-1][key] += line[10:] + "\n"
    return steps


# Stand for commands of the workflow that fetch or install: they check what they get, and Tenon is there already.
STANDINS = {
    "sudo": 'exec "$@"',
    "apt-get": 'echo "$@" >>"$RUNNER_TEMP/packages"',
    "git": '[ "$1 $2 $3 $4 $5" = "clone --depth 1 --branch v0.1" ] && [ "$6" = https://example.org/tenon.git ] && mkdir "$7"',
    "meson": """case "$1" in
setup) if [ -d "$3" ]; then mkdir "$2" && shift 3 && echo "$@" >"$RUNNER_TEMP/setup"; else exec "$REAL_MESON" "$@"; fi ;;
install) [ "$2 $3" = "--no-rebuild -C" ] && [ -d "$4" ] ;;
*) exec "$REAL_MESON" "$@" ;;
esac""",
    "ninja": 'case "$2" in "$RUNNER_TEMP"/*) [ -d "$2" ] ;; *) exec "$REAL_NINJA" "$@" ;; esac'}


def check_workflow(house):
    """The steps of the generated workflow, one after the other, as GitHub runs them; what installs goes to stand-ins."""
    folder, runner = new_plugin(house, "flow"), house.folder("runner")
    for name, text in STANDINS.items():
        (runner / name).write_text(f"#!/bin/sh\n{text}\n")
        (runner / name).chmod(0o755)
    steps = steps_of(folder / ".github/workflows/check.yml")
    environment = {"RUNNER_TEMP": str(runner), "REAL_MESON": house.meson, "REAL_NINJA": shutil.which("ninja"),
                   "PATH": f"{runner}:{house.environment['PATH']}", "LD_LIBRARY_PATH": str(house.library)}
    values = {"${{ vars.TENON_REPOSITORY }}": "https://example.org/tenon.git", "${{ vars.TENON_REVISION }}": "v0.1"}
    for step in steps:
        expect("${{" not in step.get("run", ""), "what others write is no part of a script", step)
        own = dict(line.split(": ") for line in step.get("env", "").splitlines())
        if "run" in step:
            house.run(["bash", "-e", "-c", step["run"]], folder, **environment, **{k: values[v] for k, v in own.items()})
    packages = set((runner / "packages").read_text().split()) - {"update", "install", "-y"}
    known = set(re.search(r'packages_build="(.*?)"', (house.source / "dev").read_text(), re.S)[1].split()) | {"git"}
    expect(packages <= known, "packages of the one list there is", str(packages - known))
    needed = {"libcjson-dev", "zlib1g-dev", "libopenblas-openmp-dev", "libdnnl-dev", "libsleef-dev", "gcc", "meson", "ninja-build"}
    expect(needed <= packages, "what Tenon is built with", str(needed - packages))
    options = (house.source / "meson_options.txt").read_text()
    for option in re.findall(r"-D(\w+)=", (runner / "setup").read_text()):
        expect(f"option('{option}'" in options, f"-D{option} is an option", options)
    report = json.loads((folder / steps[-1]["with"].split("path: ")[1].strip()).read_text())
    expect(report["status"] == "passed" and report["subject"]["plugin"] == "flow", "the report that is uploaded", str(report)[:500])


def check_two_vendors(house):
    """Both are there at once, a tensor goes from one to the other, and neither may have the other's name."""
    zeta, array = house.root / "plugin_zeta_9", house.root / "plugin_array/build"
    report = house.use("tenon", "doctor", TENON_PLUGIN_ADD=f"{zeta}:{array}")
    for line in ("zeta_9 0.1 (Zeta & Sons): 1 device 'zeta_9'", "array 0.1 (Array): 1 device 'array'"):
        expect(f"loaded   {line}" in report, line, report)
    output = house.use(house.root / "on_device/on_device", "zeta_9:0", "array:0", TENON_PLUGIN_ADD=f"{zeta}:{array}")
    expect(output.endswith("well\n"), "a tensor from one vendor's device to the other's", output)


def check_allowed(house):
    """A list beside the library: what it lacks is not loaded, the processor's plugin included."""
    plugins = Path(house.config("--variable=plugindir")[0]).resolve()
    allowed = house.library / "tenon/plugins.allow"
    sums = house.run(["sha256sum", plugins / "libtenon_cpu.so"])
    allowed.write_text(f"# what may be loaded here\n{sums}")
    try:
        report = house.run([house.prefix / "bin/tenon", "doctor"], expect=1, LD_LIBRARY_PATH=str(house.library))
        expect("loaded   cpu" in report, "cpu is allowed", report)
        expect(f"refused: '{allowed}' allows no library with the SHA-256" in report, "reference is not", report)
    finally:
        allowed.unlink()


def check_cplusplus(house):
    folder = house.folder("cplusplus")
    shutil.copy(HERE / "client.cpp", folder)
    output = house.use(house.program(folder / "client.cpp", "client", language="c++"))
    expect(output == "well\n", "the C++ client", output)


def check_objects(house):
    """The headers of C++ stand alone in C++17 and later, and their objects work."""
    folder = house.folder("objects")
    for header in sorted((house.prefix / "include/tenon").glob("*.hpp")):
        for standard in ("c++17", "c++20"):
            (folder / "one.cpp").write_text(f"#include <tenon/{header.name}>\nint nothing;\n")
            house.run([*house.cxx, f"-std={standard}", *STRICT_CXX, "-Wpedantic", *house.config("--cflags"), "-fsyntax-only", folder / "one.cpp"])
    for name in ("objects.hpp", "objects.cpp", "callbacks.cpp"):
        shutil.copy(HERE / name, folder)
    for name, standard in (("objects", "c++17"), ("objects", "c++20"), ("callbacks", "c++17")):
        output = house.use(house.program(folder / f"{name}.cpp", name, language="c++", standard=standard))
        expect(output == "well\n", f"the {name} in {standard}", output)


# What fragments of the documents may use without saying where it is from.
PREAMBLE = """#pragma GCC diagnostic ignored "-Wunused-variable" /* a fragment shows a call, not its use */
#include <stdio.h>
#include <tenon/tenon.h>
int main(void)
{
    tn_context *ctx;
    if (tn_context_create(NULL, &ctx)) return 1;
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 5, 5)), *w = tn_ones(s, TN_INTS(2, 2, 3, 3));
    tn_tensor *a = tn_ones(s, TN_INTS(2)), *b = tn_ones(s, TN_INTS(2)), *out = tn_empty(s, TN_INTS(2));
    (void)x, (void)w, (void)a, (void)b, (void)out;
"""
EPILOGUE = """
    int status = tn_scope_failed(s);
    if (status) puts(tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return status;
}
"""


def has_main(block):
    return re.search(r"\bmain\(|^TN_MAIN\(", block, re.M)


def whole_program(block):
    """The block itself, with a main function if it has others, or a program around a fragment, in which a line may be an
    expression without its semicolon."""
    if has_main(block):
        return block
    if functions := re.findall(r"^static [^(\n]*?(\w+)\(", block, re.M):
        return block + "int main(void)\n{\n" + "".join(f"    (void){name};\n" for name in functions) + "    return 0;\n}\n"
    lines = [f"    (void){m[1]};{m[2]}" if (m := re.match(r"(\w[^;{}]*?\))(\s*(?:/\*.*\*/)?)$", line)) else "    " + line
             for line in block.splitlines()]
    return PREAMBLE + "\n".join(lines) + EPILOGUE


def check_documents(house):
    """Every block of C and C++ in the documents compiles and runs; where a comment says what it prints, it does. Whole
    programs say what went wrong when their context cannot be made."""
    folder, programs = house.folder("documents"), 0
    documents = [house.source / "README.md", *sorted((house.source / "docs").rglob("*.md")),
                 *sorted((house.source / "examples").rglob("*.md"))]
    for document in documents:
        for ending, block in re.findall(r"^```(c|cpp)\n(.*?)^```", document.read_text(), re.M | re.S):
            source = folder / f"program{programs}.{ending}"
            source.write_text(whole_program(block))
            program = house.program(source, f"program{programs}", language="c++" if ending == "cpp" else "c")
            output = house.run([program], folder, LD_LIBRARY_PATH=str(house.library))
            if has_main(block):
                refused = house.run([program], folder, expect=1, LD_LIBRARY_PATH=str(house.library), TENON_FALLBACK="eror")
                expect("TENON_FALLBACK" in refused, f"{document.name}: a program says why it ends", refused)
            for said in re.findall(r"/\* (tensor\(.*\)) \*/", block):
                expect("".join(output.split()) == "".join(said.split()), f"{document.name} says {said}", output)
            programs += 1
    expect(programs > 1, "the README has a program, and a page a fragment")


CHECKS = [check_tree, check_links, check_headers, check_cmake, check_static, check_lists, check_python, check_pages, check_operators_meson, check_operators_cc,
          check_allocator, check_plugin_example, check_plugin_cc, check_plugin_sources, check_plugin_meson, check_workflow, check_new_operators, check_new_app, check_two_vendors, check_allowed,
          check_cplusplus, check_objects, check_documents]


def main():
    build, source, cc, cxx = sys.argv[1:]
    os.umask(0o022)  # plugins that others may write are refused
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="install-", dir=build) as root:
        try:
            house = House(build, source, cc, cxx, root)
        except Skip as e:
            print(f"0 passed, 0 failed, {len(CHECKS)} skipped: {e}")
            return 77
        for check in CHECKS:
            try:
                check(house)
                passed += 1
            except (Failure, subprocess.TimeoutExpired) as e:
                print(f"{check.__name__}: {e}")
                failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
