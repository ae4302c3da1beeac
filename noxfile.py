"""Every check of the project, each in an environment of its own.

    nox -l                      what there is
    nox -s core-3.12            the core suite on one interpreter
    nox -s interop-torch28      the interop suite beside one set of real libraries
    nox -t dev                  what a change needs before it is sent: build, sample, lint, manual
    nox -t ci                   what runs on every change (.ci/run: three sessions at a time)

One wheel is built per run and the same file is installed everywhere; DLSHIM_WHEEL=FILE takes one
that exists. The environments of the interop suite are data: tests/interop/environments.toml.
Every pytest run leaves a JUnit file in build/results/.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
RESULTS = ROOT / "build" / "results"
DIST = ROOT / "dist"
sys.path += [str(ROOT / "tests" / "interop"), str(ROOT / "tools")]
import debian  # noqa: E402
import environments  # noqa: E402

FLOOR = "3.10"
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
NEWER = ["3.14", "3.15"]  # where Debian's unstable suite has them
MAIN = "3.11"  # for everything that needs one interpreter only
NEWCOMER = "3.12"  # what the README's commands are run with
#: What runs on every change, three sessions at a time.
CI = ["ci"]
#: What has to run before a session that installs the wheel, unless DLSHIM_WHEEL names one.
WHEEL = [] if os.environ.get("DLSHIM_WHEEL") else ["build"]

nox.needs_version = ">=2025.5.1"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["suite"]


def interpreter(version: str) -> str:
    """A path where pyenv has that version (its shims answer for versions that are switched off)."""
    home = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    found = glob.glob(f"{home}/versions/{version}.*/bin/python{version}")
    found.sort(key=lambda path: [int(n) for n in re.findall(r"\d+", path)])
    return found[-1] if found else f"python{version}"


def session(name: str, version: str = MAIN, why: str = "", **options):
    """As nox.session, on an interpreter that is here; `why` takes the place of a docstring."""

    def register(run):
        # `nox -l` shows the first line of it: all of it is put on one.
        run.__doc__ = " ".join((why or run.__doc__).split())
        options["download_python"] = "never"
        return nox.session(run, name=name, python=interpreter(version), **options)

    return register


# ---- what fails soonest, first: `nox -t dev` keeps this order ------------------------------


@session("lint", tags=[*CI, "dev"])
def lint(s: nox.Session) -> None:
    """ruff; clang-format; every C warning an error, with the headers of every interpreter; gcc's
    analyser."""
    s.install("ruff==0.17.5", "clang-format==23.1.5")
    s.run("ruff", "check", ".")
    # Another version lays out differently. A file that differs fails; nothing is written.
    files = [str(path) for path in sorted(Path("src").glob("*/*.[ch]"))]
    s.run("clang-format", "--dry-run", "-Werror", *files)
    for version in PYTHONS:
        s.run(interpreter(version), "tools/check_c.py", external=True)
    s.run(interpreter(FLOOR), "tools/check_c.py", "--analyse", external=True)


# ---- the wheel ------------------------------------------------------------------------------


def the_wheel() -> Path:
    given = os.environ.get("DLSHIM_WHEEL")
    wheels = [Path(given)] if given else sorted(DIST.glob("dlshim-*.whl"))
    if len(wheels) != 1 or not wheels[0].is_file():
        raise RuntimeError(f"one wheel is wanted, there is {wheels or 'none'}: run `nox -s build`")
    return wheels[0].resolve()


def install(s: nox.Session, *packages: str, extra: str = "", options: tuple[str, ...] = ()) -> None:
    """Installs packages and the wheel; nothing is ever compiled but what `options` allow."""
    wheel = the_wheel()
    wheel_with_extra = f"{wheel}[{extra}]" if extra else str(wheel)
    s.install("--only-binary=:all:", *options, *packages, wheel_with_extra)
    # An environment that is used again may hold an older file of the same version.
    if getattr(s.virtualenv, "reuse_existing", True):
        s.install("--force-reinstall", "--no-deps", str(wheel), silent=True)


@session("build", FLOOR, tags=[*CI, "dev"])
def build(s: nox.Session) -> None:
    """One wheel for all other sessions, by way of the source distribution, with the floor's
    headers: what is tested is what is shipped."""
    if not os.environ.get("DLSHIM_WHEEL"):
        s.install("build")
        for stale in [DIST, *ROOT.glob("*.egg-info")]:
            shutil.rmtree(stale, ignore_errors=True)
        s.run("python", "-m", "build", "--outdir", str(DIST), env={"DLSHIM_WERROR": "1"})
    wheel = the_wheel()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    s.log(f"{wheel.name}, {wheel.stat().st_size} bytes, sha256 {digest}")


#: What reads finished wheels, here and in a release (pyproject.toml).
AUDIT = ["abi3audit==0.0.26", "pyelftools==0.33", "check-wheel-contents==0.6.3"]


@session("audit", tags=CI, requires=WHEEL)
def audit(s: nox.Session) -> None:
    """The wheel as installers and loaders see it: nothing but the stable ABI of the floor is used,
    the module is protected, no file is out of place."""
    s.install(*AUDIT)
    wheel = str(the_wheel())
    s.run("abi3audit", "--strict", "--report", wheel)
    s.run("python", "tools/release.py", "check", wheel)
    s.run("check-wheel-contents", wheel)


@session("emulated", FLOOR, tags=CI)
def emulated(s: nox.Session) -> None:
    """Other processors: the wheels for aarch64 and riscv64, by zig, with a selection of the core
    suite under QEMU, and the code compiled for musl, macOS and Windows (needs root, mmdebstrap,
    qemu-user-static, Linux 6.7); `-- s390x -- tests/core` for others and more (half an hour)."""
    if not debian.can_emulate():
        s.skip("this kernel starts no programs of another processor in a user namespace")
    s.install("ziglang==0.17.1", "setuptools==84.2.1", "auditwheel==6.8.2", "wheel", "tomli")
    s.install(*AUDIT)
    selection = ["tests/core/test_capsule_life.py", "tests/core/test_consumers.py", "--hand-on=on"]
    usual = ["--once", "aarch64", "riscv64", "--", *selection]
    s.run("python", "tools/wheels.py", *(s.posargs or usual))


@session("release", requires=WHEEL)
def release(s: nox.Session) -> None:
    """What a release consists of, as the linters of others see it: the workflows, the metadata,
    every wheel that is there, the sdist, the kit's two files, the list of parts, one version
    everywhere, what cibuildwheel would build."""
    s.install("zizmor==1.32.0", "check-jsonschema==0.39.0", "validate-pyproject[all]==0.27")
    s.install("twine==7.0.0", "cibuildwheel==4.3.3", "build==1.6.1", *AUDIT)
    s.install("cyclonedx-bom==7.5.0")
    workflows = [str(path) for path in sorted(Path(".github/workflows").glob("*.yml"))]
    workflows.append("kit/workflow.yml")  # that others copy
    s.run("zizmor", "--offline", *workflows)
    s.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    s.run("validate-pyproject", "pyproject.toml", "kit/pyproject.toml")
    s.run("python", "tools/release.py", "versions")
    kit = DIST / "kit"
    shutil.rmtree(kit, ignore_errors=True)
    s.run("python", "-m", "build", "--outdir", str(kit), "kit")
    made = [the_wheel(), *sorted(DIST.glob("*.tar.gz")), *sorted(DIST.glob("wheels/*.whl"))]
    made += sorted(kit.glob("*"))
    files = [str(path) for path in made]
    s.run("twine", "check", "--strict", *files)
    s.run("check-wheel-contents", *(file for file in files if file.endswith(".whl")))
    s.run("python", "tools/release.py", "check", str(the_wheel()))
    installed = Path(s.create_tmp()) / "installed"
    s.run("python", "-m", "venv", "--clear", "--without-pip", str(installed))
    pip = ("python", "-m", "pip", "--python", str(installed / "bin" / "python"))
    s.run(*pip, "install", "--no-deps", "--no-index", str(the_wheel()))
    parts = ("--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible")
    file = str(installed.parent / "dlshim.cdx.json")
    s.run(
        "cyclonedx-py", "environment", *parts, "--output-file", file, "--validate", str(installed)
    )
    for system, archs in ("linux", "auto64"), ("macos", "arm64"), ("windows", "AMD64,ARM64"):
        options = ("--print-build-identifiers", "--platform", system, "--archs", archs)
        s.run("cibuildwheel", *options)


# ---- the suites -----------------------------------------------------------------------------


def pytest(
    s: nox.Session, *args: str, env: dict[str, str] | None = None, results: str = ""
) -> None:
    file = RESULTS / f"{results or s.name}.xml"
    file.unlink(missing_ok=True)
    env = {"DLSHIM_WHEEL": str(the_wheel()), **(env or {})}
    s.run("python", "-m", "pytest", f"--junitxml={file}", *args, *s.posargs, env=env)


#: Tests of the project that run longer than they tell somebody who changes a file.
SLOW = (
    "not one_screen and not test_layers and not test_rings and not test_wheels and not test_matrix"
)


@session("sample", tags=["dev"], requires=WHEEL)
def sample(s: nox.Session) -> None:
    """What a newcomer's second command runs, and the tests that name what a change has left out:
    documents, tables, layers of texts; `suite` runs everything."""
    install(s, extra="test")
    pytest(s)
    pytest(s, "tests/project", "-k", SLOW, results="sample-project")
    pytest(s, "tests/transcript", results="sample-transcript")


@session("suite", tags=CI, requires=WHEEL)
def suite(s: nox.Session) -> None:
    """Every test that needs no other libraries, on Python 3.11; a newcomer runs a sample of it."""
    install(s, extra="test")
    pytest(s, "--all")


@session("kit", tags=CI, requires=WHEEL)
def kit(s: nox.Session) -> None:
    """The conformance kit as library authors install it, on NumPy and on dlshim itself: it is a
    package of its own, and no other session sees what that lacks."""
    install(s, "pytest>=9", "hypothesis", "numpy", "setuptools>=77")
    s.install("--no-deps", "--no-build-isolation", "./kit")
    known = ("--dlpack-known", "tests/kit/known.toml")
    with s.chdir("docs"):  # a folder without tests, and without the kit's source
        s.run("python", "-c", "import dlshim.testing as kit; kit.strategies, kit.doubles")
    for name in ("numpy", "dlshim"):
        target = f"dlshim_testing.libraries:{name}"
        consumer = f"dlshim_testing.libraries:from_{name}"
        extra = known if name == "dlshim" else ()
        pytest(s, "--dlpack-producer", target, "--dlpack-consumer", consumer, *extra, "-q",
               results=f"kit-{name}")  # fmt: skip
    s.install("pytest-xdist")
    pytest(s, "tests/kit/test_plugin.py", "-k", "xdist", results="kit-xdist")


#: Every NumPy of another behaviour that CPython 3.11 can have.
NUMPYS = ("1.23.5", "1.24.4", "1.26.4", "2.0.2", "2.1.3", "2.2.6", "2.3.5", "2.4.6")


@session("kit-numpy", requires=WHEEL)
def kit_numpy(s: nox.Session) -> None:
    """The conformance kit on eight releases of NumPy: none but the known faults is found."""
    install(s, "pytest>=9", "hypothesis", "setuptools>=77")
    s.install("--no-deps", "--no-build-isolation", "./kit")
    for version in NUMPYS:
        s.install("--only-binary=:all:", f"numpy=={version}")
        known = ("--dlpack-known", "tests/kit/known-numpy.toml")
        extra = known if version in ("2.1.3", "2.2.6", "2.3.5") else ()
        pytest(s, "--dlpack-producer", "numpy:zeros", "--dlpack-consumer", "numpy:from_dlpack",
               *extra, "-q", results=f"kit-numpy-{version}")  # fmt: skip


def core(version: str) -> None:
    # `suite` runs it with and without handing-on.  The others differ by the interpreter alone: one
    # mode is enough there, and takes half the time.
    modes = () if version == MAIN else ("--hand-on=on",)
    tags = [] if version == MAIN else CI  # there, `suite` runs it

    @session(f"core-{version}", version, f"The core suite on Python {version}.",
             tags=tags, requires=WHEEL)  # fmt: skip
    def run(s: nox.Session) -> None:
        install(s, extra="test")
        pytest(s, "tests/core", *modes)


def faults(version: str) -> None:
    why = f"Where something fails on purpose, six times on Python {version}: nothing holds by luck."
    core = ["test_alloc_failure", "test_no_memory", "test_interruptions", "test_exit_and_fork"]
    files = [f"tests/core/{name}.py" for name in [*core, "test_interpreters"]]
    files.append("tests/device/test_every_call.py")

    @session(f"faults-{version}", version, why, requires=WHEEL)
    def run(s: nox.Session) -> None:
        install(s, extra="test")
        for allocator in ("default", "debug"):
            for _ in range(3):
                pytest(s, *files, env={"PYTHONMALLOC": allocator})


for each in PYTHONS:
    core(each)
    faults(each)


@session("clusters", "3.11", requires=WHEEL)
def clusters(s: nox.Session) -> None:
    """A Tensor goes through the object stores of Ray and dask.distributed without a copy, as the
    manual says; both start processes, and Ray has 70 MB."""
    install(s, "ray==2.60.0", "distributed==2026.8.0", "numpy==2.4.6", extra="test")
    pytest(s, "tests/clusters")


@session("builds", tags=CI, requires=WHEEL)
def builds(s: nox.Session) -> None:
    """Projects of the usual build systems find dlshim.h in isolated builds, as the manual says."""
    install(s, "pytest>=9", "pkgconf==3.0.7.post0")
    pytest(s, "tests/builds")


@session("binders", tags=CI, requires=WHEEL)
def binders(s: nox.Session) -> None:
    """Parameters of dlshim.hpp with nanobind and pybind11, and the stubs that are made of them."""
    install(s, "pytest>=9", "numpy", "nanobind", "pybind11", "pybind11-stubgen", "mypy")
    pytest(s, "tests/binders")


@session("model", requires=WHEEL)
def model(s: nox.Session) -> None:
    """Exchanges at random, for orders that nobody thinks of: 100 000 cases beside a model of the
    rules, 120 000 of device memory with and without dlshim (samples of both are in `suite`)."""
    install(s, "pytest>=9", "hypothesis")
    reports = RESULTS.resolve()
    reports.mkdir(parents=True, exist_ok=True)
    walks = {"model": ["--cases=100000", "--processes=2"], "device": ["--cases=120000"]}
    with s.chdir("tests"):
        for module, usual in walks.items():
            report = f"--report={reports / module}.json"
            s.run("python", "-m", module, report, *(s.posargs or usual))


# ---- tools ----------------------------------------------------------------------------------


def tool(
    name: str,
    why: str,
    *command: str,
    usual: tuple[str, ...] = (),
    packages: tuple[str, ...] = (),
    wheel: bool = False,
    **options,
) -> None:
    """A session that runs a program of this project; what follows `--` replaces the usual
    arguments.  The word WHEEL stands for the wheel."""

    @session(name, why=why, requires=WHEEL if wheel else [], **options)
    def run(s: nox.Session) -> None:
        if wheel:
            install(s, *packages)
        elif packages:
            s.install(*packages)
        words = [str(the_wheel()) if word == "WHEEL" else word for word in command]
        s.run("python", *words, *(s.posargs or usual))


def junit(name: str) -> str:
    return f"--junitxml=build/results/{name}.xml"


tool("readme", "The README's two commands in a copy of the commit, with an empty HOME and no "
     "variables: what only this machine has is noticed; `-- --debian` in a bare Debian 12.",
     "tools/fresh.py", f"--python={interpreter(NEWCOMER)}", f"--results={RESULTS}/readme.xml",
     tags=CI)  # fmt: skip
tool("examples", "Extensions with dlshim.h, as other projects write them: each is built by the "
     "commands in its head, and tried.", "examples/check.py",
     packages=("numpy", "nanobind", "pybind11", "cython"), wheel=True, tags=CI)  # fmt: skip
for each in NEWER:
    tool(f"core-{each}", f"The core suite on Debian unstable's {each} (root, mmdebstrap).",
         "tools/newer_python.py", each, "WHEEL", junit(f"core-{each}"),
         usual=("tests/core",), wheel=True)  # fmt: skip
tool("core-abi3t", "The core suite with the extension for abi3t, the stable ABI of builds with and "
     "without a GIL (root, mmdebstrap).", "tools/newer_python.py", "abi3t", "WHEEL",
     junit("core-abi3t"), usual=("tests/core",), wheel=True)  # fmt: skip
tool("core-3.13t", "The core suite without the GIL, on a CPython made from Debian's source.",
     "tools/free_threaded.py", "core", junit("core-3.13t"), usual=("tests/core",))  # fmt: skip
tool("core-musl", "The core suite on CPython with musl, made from Debian's sources (musl-tools).",
     "tools/musl.py", junit("core-musl"), usual=("--all", "tests/core"))  # fmt: skip
tool("stress-ft", "Programs of threads (tests/stress) without the GIL, ten minutes each.",
     "tools/free_threaded.py", "stress", usual=("--seconds", "600"))  # fmt: skip
tool("tsan-ft", "The same under ThreadSanitizer (needs clang and libclang-rt-14-dev).",
     "tools/free_threaded.py", "tsan", usual=("--seconds", "20"))  # fmt: skip
tool("scaling-ft", "Without the GIL two threads make nearly twice the exchanges of one.",
     "tools/free_threaded.py", "scaling")  # fmt: skip
tool("mutants", "Sources with one action missing: the tests of device memory notice each, or they "
     "prove nothing.", "tools/mutants.py", packages=("pytest>=9",), tags=CI)  # fmt: skip
tool("fuzz", "Coverage-guided fuzzing of the C core and of the boundary, a minute for each target "
     "(needs clang); `-- --seconds 600 boundary` for other lengths and single targets.",
     "tools/fuzz.py", "run", packages=("atheris", "setuptools>=77"), version=NEWCOMER)  # fmt: skip
#: What tests on a package that is built in another way need.
TESTED = ("pytest>=9", "hypothesis", "setuptools>=77")
tool("sanitize", "The core suite under ASan and UBSan, with leak detection and asserts, and the "
     "fuzzers' corpora of the C core; homes and kernels beside NumPy.", "tools/variant.py",
     "sanitize", f"numpy=={environments.load()['newest'].pins['numpy']}", junit("sanitize"),
     packages=TESTED, tags=CI)  # fmt: skip
tool("memcheck", "A part of the core suite under valgrind: memory that is read and was never set.",
     "tools/variant.py", "memcheck", packages=TESTED)  # fmt: skip
tool("debug", "References, blocks and the core suite on a debug build of CPython (Debian's).",
     "tools/variant.py", "debug", packages=TESTED)  # fmt: skip
tool("coverage", "Lines and branches of C that the tests reach: at least 97 and 92 %.",
     "tools/variant.py", "coverage", *(f"--python={each}={interpreter(each)}" for each in PYTHONS),
     packages=(*TESTED, "gcovr==8.8"))  # fmt: skip
tool("tidy", "clang-tidy and cppcheck, which see other faults than gcc; Debian's, and too large to "
     "install on every change.", "tools/check_c.py", "--tidy", version=FLOOR)  # fmt: skip


# ---- real libraries -------------------------------------------------------------------------


def installed_by_debian(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout.startswith("install ok")


def set_up(s: nox.Session, env: environments.Environment) -> dict[str, str]:
    """Installs an environment and checks it; returns what its tests want to know."""
    if absent := [package for package in env.apt if not installed_by_debian(package)]:
        s.error(f"a library needs Debian packages: apt-get install {' '.join(absent)}")
    if env.no_deps:
        s.install("--no-deps", "--only-binary=:all:", *env.no_deps)
    no_binary = tuple(f"--no-binary={name}" for name in env.source)
    install(s, "pytest>=9", *env.pip, options=no_binary)
    if "torch_stubs" in env.steps:
        s.run_install("python", "tools/torch_stubs.py")
    aside = Path(s.virtualenv.location, "aside")
    for pin in env.aside:
        folder = aside / pin.replace("==", "-")
        if not folder.is_dir():
            s.install("--no-deps", "--target", str(folder), pin)
    s.run("python", "tests/interop/environments.py", env.name)
    return {"DLSHIM_INTEROP_ENV": env.name, "DLSHIM_INTEROP_ASIDE": str(aside)}


def interop(env: environments.Environment) -> None:
    def run(s: nox.Session) -> None:
        told = set_up(s, env)
        pytest(s, *env.targets, env=told)
        if env.manual and not s.posargs:
            if env.manual_pip:
                s.install("--only-binary=:all:", *env.manual_pip)
            pytest(s, "tests/project/test_docs_code.py", env=told, results=f"{s.name}-manual")

    why = f"{env.why[0].upper()}{env.why[1:]}."
    tags = CI if env.in_ci else []
    session(env.session, env.python, why, tags=tags, requires=WHEEL)(run)


for each in environments.load().values():
    interop(each)


tool("newest", "The newest release of each library, in an environment of its own: what arrays come "
     "to is compared with docs/results/outcomes.csv, and what differs is printed; `-- numpy torch` "
     "for single ones, `-- --write` records it.",
     "tools/newest.py", "WHEEL", version=NEWCOMER, wheel=True)  # fmt: skip


@session("mutant-matrix", requires=WHEEL)
def mutant_matrix(s: nox.Session) -> None:
    """Which suites notice faults that are drawn at random: a table of mutant x suite, a night's
    work that can be resumed; `-- summary FILE` reads it."""
    install(s, extra="test")
    usual = ("run", "build/matrix.csv", "--minutes", "480")
    s.run("python", "tools/mutant_matrix.py", *(s.posargs or usual))


@session("mutants-gpu", tags=CI, requires=WHEEL)
def mutants_gpu(s: nox.Session) -> None:
    """tests/gpu on the asynchronous fake driver, with one sync left out at a time: each of its
    tests of order fails without the sync that it proves."""
    set_up(s, environments.load()["cuda-libraries"])
    s.run("python", "tools/mutants_gpu.py", *s.posargs)


# ---- reading the source ---------------------------------------------------------------------


@session("stubtest", PYTHONS[-1], tags=CI, requires=WHEEL)
def stubtest(s: nox.Session) -> None:
    """The types of the Python files; the stub of the extension says what the extension does; mypy
    and pyright (by basedpyright, whose wheel is complete) accept every documented use."""
    install(s, "mypy", "basedpyright", "rich", "jinja2")
    allowed = ("--allowlist", "tests/project/stubtest_allowed.txt", "--ignore-unused-allowlist")
    config = ("--mypy-config-file", "pyproject.toml")
    s.run("python", "-m", "mypy", "--config-file", "pyproject.toml", "-p", "shim")
    s.run("python", "-m", "mypy.stubtest", *config, *allowed, "dlshim")
    uses = "tests/project/documented_uses.py"
    for version in (*PYTHONS, "3.14"):
        s.run("python", "-m", "mypy", "--strict", "--python-version", version, uses)
        s.run("basedpyright", "--level", "error", "--pythonversion", version, uses)


# ---- documents and measurements -------------------------------------------------------------


@session("docs", tags=[*CI, "dev"], requires=WHEEL)
def docs(s: nox.Session) -> None:
    """The manual builds without a warning, and its part for users is short.

    `-- look`: nothing on its pages or on that of `matrix` is cut off in Chromium (needs Debian's
    chromium and chromium-driver).
    """
    look = s.posargs == ["look"]
    install(s, "-r", "docs/requirements.txt", *(["selenium"] if look else []),
            extra="demo" if look else "")  # fmt: skip
    s.run("python", "-m", "sphinx", "-W", "--keep-going", "docs", "docs/_build/html")
    s.run("python", "tools/words.py", "docs/_build/html")
    if look:
        s.run("python", "tools/look.py")


def install_peers(s: nox.Session) -> None:
    """What the benchmarks compare with, in the versions of the newest environment."""
    pins = environments.load()["newest"].pins
    peers = ["numpy", "torch", "nanobind", "apache-tvm-ffi", "cuda-core", "cuda-bindings"]
    install(s, *(f"{name}=={pins[name]}" for name in [*peers, "pydlpack", "ctypes-dlpack"]))


@session("bench", requires=WHEEL)
def bench(s: nox.Session) -> None:
    """Nanoseconds beside the peers; `-- copies`: host copies beside NumPy's and torch's; `-- manual
    FOLDER`: the tables of the manual (shown, never a gate)."""
    install_peers(s)
    words = list(s.posargs)
    program = words.pop(0) if words[:1] in (["copies"], ["manual"]) else "bench"
    s.run("python", f"benchmarks/{program}.py", *words)


#: The last of 1.x, and the last that leaves strides out and is used widely.
OLD_NUMPYS = ("1.26.4", "2.2.6")


@session("instructions", tags=CI, requires=WHEEL)
def instructions(s: nox.Session) -> None:
    """Instructions of dlshim's own cases, by valgrind: none may cost more than before; `-- all`:
    beside every peer, with the journeys."""
    s.env["PIP_COMPILE"] = "1"  # the programs write no bytecode, and would compile under valgrind
    words = list(s.posargs)
    if words[:1] == ["all"]:
        install_peers(s)
        s.run("python", "benchmarks/instructions.py", *words[1:])
        return
    pins = environments.load()["newest"].pins
    libraries = ("numpy", "pyarrow", "apache-tvm-ffi")
    install(s, *(f"{name}=={pins[name]}" for name in libraries), "nanobind")
    own = "^(?!torch|peers).*(dlshim|floor|direct|inner|upgrade|by hand)$"
    own += "|^(legacy|instance|standard class|pyarrow) to numpy .* bare$"
    own += r"|^.*, \d+\.\d+ \| bare$"
    own += r"|^peers consume (numpy|legacy) \| (dlshim\.h.*|nanobind)$"
    groups = "calls,pieces,dimensions,tables,journeys,copies,tensors,elements,consumes,older"
    groups += ",refusals,kernels,releases,raw_capsules,off_host,first_meetings"
    for version in OLD_NUMPYS:
        folder = Path(s.virtualenv.location, f"numpy-{version}")
        if not folder.is_dir():
            s.install("--no-deps", "--target", str(folder), f"numpy=={version}")
        words += ["--numpy", str(folder)]
    s.run("python", "benchmarks/instructions.py", "--groups", groups, "--select", own, *words)
