"""Every check of the project, each in an environment of its own.

    nox -l                      what there is
    nox -s core-3.12            the core suite on one interpreter
    nox -s interop-torch28      the interop suite beside one set of real libraries
    nox -t dev                  what a change needs before it is sent: build, suite, lint, manual
    nox -t ci                   what runs on every change (.ci/run: two sessions at a time)

One wheel is built per run and the same file is installed everywhere; DLSHIM_WHEEL=FILE takes one
that exists. The environments of the interop suite are data: tests/interop/environments.toml.
Every pytest run leaves a JUnit file in build/results/.
"""

from __future__ import annotations

import functools
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
import environments  # noqa: E402
import foreign  # noqa: E402

FLOOR = "3.10"
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
NEWER = ["3.14", "3.15"]  # where Debian's unstable suite has them
MAIN = "3.11"  # for everything that needs one interpreter only
NEWCOMER = "3.12"  # what the README's commands are run with
#: What runs on every change, two sessions at a time.
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


def session(name: str, version: str = MAIN, **options):
    """As nox.session; with DLSHIM_CI=1 the environment goes when its session ends, as all of them
    together take gigabytes."""

    def register(run):
        @functools.wraps(run)
        def run_and_leave(s: nox.Session) -> None:
            try:
                run(s)
            finally:
                if os.environ.get("DLSHIM_CI") == "1":
                    shutil.rmtree(s.virtualenv.location, ignore_errors=True)

        return nox.session(
            run_and_leave,
            name=name,
            python=interpreter(version),
            download_python="never",
            **options,
        )

    return register


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
    s.install("--force-reinstall", "--no-deps", str(wheel), silent=True)


@session("build", FLOOR, tags=[*CI, "dev"])
def build(s: nox.Session) -> None:
    """One wheel, compiled from the source distribution with the headers of the floor."""
    if not os.environ.get("DLSHIM_WHEEL"):
        s.install("build")
        for stale in [DIST, *ROOT.glob("*.egg-info")]:
            shutil.rmtree(stale, ignore_errors=True)
        s.run("python", "-m", "build", "--outdir", str(DIST), env={"DLSHIM_WERROR": "1"})
    wheel = the_wheel()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    s.log(f"{wheel.name}, {wheel.stat().st_size} bytes, sha256 {digest}")


#: What tools/wheels.py asks for.
WHEEL_TOOLS = ["ziglang==0.17.1", "setuptools==84.2.1", "auditwheel==6.8.2", "abi3audit==0.0.26"]
WHEEL_TOOLS += ["pyelftools", "macholib==1.16.4", "pefile==2024.8.26", "wheel", "tomli"]


@session("wheels", FLOOR)
def wheels(s: nox.Session) -> None:
    """Every wheel by zig on one machine, made twice and audited; `-- NAME` for those of
    tools/wheels.toml."""
    s.install(*WHEEL_TOOLS)
    s.run("python", "tools/wheels.py", "build", *s.posargs)


@session("wheels-test", requires=["wheels"])
def wheels_test(s: nox.Session) -> None:
    """The core suite with these wheels on Debian's Python of each processor, under QEMU where it
    is foreign (needs root, mmdebstrap, qemu-user-static; half an hour for a foreign one); where
    there is no Python, the module is loaded by wine or musl's loader (needs wine64, musl)."""
    s.install(*WHEEL_TOOLS)
    s.run("python", "tools/wheels.py", "test", *s.posargs)


#: Files of the core suite that import and export tensors of both generations, and are soon done.
SELECTION = ["tests/core/test_capsule_life.py", "tests/core/test_consumers.py"]


@session("emulated", FLOOR, tags=CI)
def emulated(s: nox.Session) -> None:
    """The wheels for aarch64 and riscv64 with a selection of the core suite, under QEMU (needs
    what wheels-test needs, and Linux 6.7)."""
    if not foreign.is_possible():
        s.skip("this kernel starts no programs of another processor in a user namespace")
    s.install(*WHEEL_TOOLS)
    names = ["manylinux-aarch64", "manylinux-riscv64"]
    s.run("python", "tools/wheels.py", "build", "--once", *names)
    s.run("python", "tools/wheels.py", "test", *names, "--", *SELECTION, "--hand-on=on")


@session("emscripten", FLOOR)
def emscripten(s: nox.Session) -> None:
    """The extension as a module of WebAssembly, under node with a stand-in for Python (needs
    Debian's emscripten and nodejs)."""
    s.install(*WHEEL_TOOLS)
    s.run("python", "tools/emscripten.py")


@session("release", requires=WHEEL)
def release(s: nox.Session) -> None:
    """The workflows, the metadata, every wheel that is there and the kit's two files, as the
    linters of others see them; one version everywhere; what cibuildwheel would build."""
    s.install("zizmor==1.32.0", "check-jsonschema==0.39.0", "validate-pyproject[all]==0.27")
    s.install("twine==7.0.0", "check-wheel-contents==0.6.3", "cibuildwheel==4.3.3")
    s.install("build==1.6.1", "pyelftools==0.33", "macholib==1.16.4", "pefile==2024.8.26")
    workflows = [str(path) for path in sorted(Path(".github/workflows").glob("*.yml"))]
    s.run("zizmor", "--offline", *workflows)
    s.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    s.run("validate-pyproject", "pyproject.toml", "kit/pyproject.toml")
    s.run("python", "tools/release.py", "versions")
    kit = DIST / "kit"
    shutil.rmtree(kit, ignore_errors=True)
    s.run("python", "-m", "build", "--outdir", str(kit), "kit")
    s.run("python", "tools/release.py", "check", str(the_wheel()))
    made = [the_wheel(), *sorted(DIST.glob("wheels/*.whl")), *sorted(kit.glob("*"))]
    files = [str(path) for path in made]
    s.run("twine", "check", "--strict", *files)
    s.run("check-wheel-contents", *(file for file in files if file.endswith(".whl")))
    for system, archs in ("linux", "auto64"), ("macos", "arm64"), ("windows", "AMD64,ARM64"):
        options = ("--print-build-identifiers", "--platform", system, "--archs", archs)
        s.run("cibuildwheel", *options)


@session("audit", tags=CI, requires=WHEEL)
def audit(s: nox.Session) -> None:
    """Nothing but the stable ABI of the floor is used."""
    s.install("abi3audit")
    s.run("abi3audit", "--strict", "--report", str(the_wheel()))


# ---- the suites -----------------------------------------------------------------------------


def pytest(
    s: nox.Session, *args: str, env: dict[str, str] | None = None, results: str = ""
) -> None:
    file = RESULTS / f"{results or s.name}.xml"
    file.unlink(missing_ok=True)
    env = {"DLSHIM_WHEEL": str(the_wheel()), **(env or {})}
    s.run("python", "-m", "pytest", f"--junitxml={file}", *args, *s.posargs, env=env)


@session("suite", tags=[*CI, "dev"], requires=WHEEL)
def suite(s: nox.Session) -> None:
    """Every test that needs no other libraries, on Python 3.11; a newcomer runs a sample of it."""
    install(s, extra="test")
    pytest(s, "--all")


@session("kit", tags=CI, requires=WHEEL)
def kit(s: nox.Session) -> None:
    """The conformance kit as library authors install it, on NumPy and on dlshim itself."""
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


@session("readme", NEWCOMER, tags=CI)
def readme(s: nox.Session) -> None:
    """The README's two commands in a copy of the commit, with an empty HOME and no variables."""
    results = RESULTS / f"{s.name}.xml"
    s.run("python", "tools/fresh.py", f"--python={interpreter(NEWCOMER)}", f"--results={results}")


@session("examples", tags=CI, requires=WHEEL)
def examples(s: nox.Session) -> None:
    """Extensions with dlshim.h: each is built by the commands in its head, and tried."""
    install(s, "numpy", "nanobind", "pybind11", "cython")
    s.run("python", "examples/check.py", *s.posargs)


@session("bare-debian")
def bare_debian(s: nox.Session) -> None:
    """The same in a bare Debian 12, buffered and unbuffered (needs root, mmdebstrap)."""
    for more in ((), ("--set=PYTHONUNBUFFERED=1",)):
        results = RESULTS / f"{s.name}.xml"
        s.run("python", "tools/fresh.py", "--debian", f"--results={results}", *more)


def core(version: str) -> None:
    # `suite` runs it with and without handing-on.  The others differ by the interpreter alone: one
    # mode is enough there, and takes half the time.
    modes = () if version == MAIN else ("--hand-on=on",)

    def run(s: nox.Session) -> None:
        install(s, extra="test")
        pytest(s, "tests/core", *modes)

    run.__doc__ = f"The core suite on Python {version}."
    tags = [] if version == MAIN else CI  # there, `suite` runs it
    session(f"core-{version}", version, tags=tags, requires=WHEEL)(run)


for each in PYTHONS:
    core(each)


def core_of_debian(version: str) -> None:
    def run(s: nox.Session) -> None:
        results = f"--junitxml=build/results/{s.name}.xml"
        wheel = str(the_wheel())
        s.run("python", "tools/newer_python.py", version, wheel, results, "tests/core", *s.posargs)

    run.__doc__ = f"The core suite on Debian unstable's Python {version} (needs root, mmdebstrap)."
    session(f"core-{version}", requires=WHEEL)(run)


for each in NEWER:
    core_of_debian(each)


@session("core-3.13t")
def core_free_threaded(s: nox.Session) -> None:
    """The core suite on a CPython without the GIL, which is built from Debian's source."""
    results = f"--junitxml=build/results/{s.name}.xml"
    s.run("python", "tools/free_threaded.py", "core", results, "tests/core", *s.posargs)


@session("core-abi3t", requires=WHEEL)
def core_abi3t(s: nox.Session) -> None:
    """The core suite on Debian's Python 3.15 with the extension for abi3t (root, mmdebstrap)."""
    results = f"--junitxml=build/results/{s.name}.xml"
    s.run("python", "tools/abi3t.py", "headers")
    s.run("python", "tools/abi3t.py", str(the_wheel()), results, "tests/core", *s.posargs)


def on_free_threads(s: nox.Session, what: str, *usual: str) -> None:
    """Runs a task of tools/free_threaded.py, which leaves a report."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    report = f"--report={RESULTS / what}.json"
    s.run("python", "tools/free_threaded.py", what, *(s.posargs or usual), report)


@session("stress-ft")
def stress_free_threaded(s: nox.Session) -> None:
    """The programs of tests/stress on that CPython, ten minutes each."""
    on_free_threads(s, "stress", "--seconds", "600")


@session("tsan-ft")
def tsan_free_threaded(s: nox.Session) -> None:
    """The same programs under ThreadSanitizer (needs clang and libclang-rt-14-dev)."""
    on_free_threads(s, "tsan", "--seconds", "20")


@session("scaling-ft")
def scaling_free_threaded(s: nox.Session) -> None:
    """The exchanges of two threads on that CPython, as a multiple of those of one thread."""
    on_free_threads(s, "scaling")


FAULTS = [
    *("test_alloc_failure", "test_no_memory", "test_interruptions", "test_exit_and_fork"),
    "test_interpreters",
]


def faults(version: str) -> None:
    def run(s: nox.Session) -> None:
        install(s, extra="test")
        files = [*(f"tests/core/{name}.py" for name in FAULTS), "tests/device/test_every_call.py"]
        for allocator in ("default", "debug"):
            for _ in range(3):
                pytest(s, *files, env={"PYTHONMALLOC": allocator})

    run.__doc__ = f"What fails on purpose, three times with either allocator, on Python {version}."
    session(f"faults-{version}", version, requires=WHEEL)(run)


for each in PYTHONS:
    faults(each)


@session("sanitize", tags=CI)
def sanitize(s: nox.Session) -> None:
    """The core suite once under ASan and UBSan, with leak detection."""
    s.install("pytest>=9", "hypothesis", "setuptools>=77")
    results = RESULTS / f"{s.name}.xml"
    s.run("python", "tools/sanitize.py", f"--junitxml={results}", *s.posargs)


@session("coverage")
def coverage(s: nox.Session) -> None:
    """Lines and branches of the C code that the tests reach: at least 97 and 92 %."""
    s.install("setuptools>=77")
    pythons = [f"--python={version}={interpreter(version)}" for version in PYTHONS]
    s.run("python", "tools/coverage.py", *pythons, *s.posargs)


@session("debug")
def debug(s: nox.Session) -> None:
    """References, blocks and the core suite on a debug build of CPython (Debian's)."""
    s.run("python", "tools/debug.py", *s.posargs)


@session("memcheck")
def memcheck(s: nox.Session) -> None:
    """A part of the core suite under valgrind's memcheck."""
    s.install("pytest>=9", "hypothesis", "setuptools>=77")
    s.run("python", "tools/memcheck.py", *s.posargs)


@session("mutants", tags=CI)
def mutants(s: nox.Session) -> None:
    """The tests of device memory on sources with one action missing: each must be noticed."""
    s.install("pytest>=9")
    s.run("python", "tools/mutants.py", *s.posargs)


@session("model", requires=WHEEL)
def model(s: nox.Session) -> None:
    """100 000 cases of the model of exchanges (a sample of it is in `suite`)."""
    install(s, "hypothesis")
    report = RESULTS.resolve() / "model.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    with s.chdir("tests"):
        given = s.posargs or ["--cases", "100000", "--processes", "2"]
        s.run("python", "-m", "model", "--report", str(report), *given)


@session("bare", requires=WHEEL)
def bare(s: nox.Session) -> None:
    """120 000 exchanges of device memory with and without dlshim on the fake drivers: none may be
    worse (a sample of it is in `suite`)."""
    install(s, "pytest>=9")
    report = RESULTS.resolve() / "bare.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    with s.chdir("tests"):
        given = s.posargs or ["--cases", "120000"]
        s.run("python", "-m", "device", "--report", str(report), *given)


@session("fuzz-replay", tags=CI)
def fuzz_replay(s: nox.Session) -> None:
    """The corpora of the C core under ASan and UBSan (tests/fuzzing replays all of them bare)."""
    s.run("python", "tools/fuzz.py", "replay")


@session("fuzz", NEWCOMER)
def fuzz(s: nox.Session) -> None:
    """Coverage-guided fuzzing of the C core and of the boundary, a minute for each target (needs
    clang); `nox -s fuzz -- --seconds 600 boundary` for other lengths and single targets."""
    s.install("atheris", "setuptools>=77")
    s.run("python", "tools/fuzz.py", "run", *s.posargs)


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

    run.__doc__ = f"{env.why[0].upper()}{env.why[1:]}."
    tags = CI if env.in_ci else []
    session(env.session, env.python, tags=tags, requires=WHEEL)(run)


for each in environments.load().values():
    interop(each)


# ---- reading the source ---------------------------------------------------------------------


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


@session("tidy")
def tidy(s: nox.Session) -> None:
    """clang-tidy and cppcheck; Debian's, which are too large to install on every change."""
    s.run(interpreter(FLOOR), "tools/tidy.py", external=True)


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
    """The manual."""
    install(s, "-r", "docs/requirements.txt")
    s.run("python", "-m", "sphinx", "-W", "--keep-going", "docs", "docs/_build/html")


@session("browser", requires=WHEEL)
def browser(s: nox.Session) -> None:
    """The page of `matrix --html` in headless Chromium, wide and narrow (needs Debian's chromium
    and chromium-driver)."""
    install(s, "selenium", extra="demo")
    s.run("python", "tools/browser.py", *s.posargs)


@session("look", requires=WHEEL)
def look(s: nox.Session) -> None:
    """Every page of the manual in headless Chromium, wide and narrow: nothing is cut off (needs
    Debian's chromium and chromium-driver)."""
    install(s, "-r", "docs/requirements.txt", "selenium")
    s.run("python", "-m", "sphinx", "-W", "--keep-going", "docs", "docs/_build/html")
    s.run("python", "tools/look.py", *s.posargs)


def install_peers(s: nox.Session) -> None:
    """What the benchmarks compare with, in the versions of the newest environment."""
    pins = environments.load()["newest"].pins
    peers = ["numpy", "torch", "nanobind", "apache-tvm-ffi", "cuda-core", "cuda-bindings"]
    install(s, *(f"{name}=={pins[name]}" for name in [*peers, "pydlpack"]))


@session("bench", requires=WHEEL)
def bench(s: nox.Session) -> None:
    """Nanoseconds beside the peers (shown, never a gate)."""
    install_peers(s)
    s.run("python", "benchmarks/bench.py", *s.posargs)


@session("bench-copies", requires=WHEEL)
def bench_copies(s: nox.Session) -> None:
    """Host copies timed beside NumPy's and torch's, on one thread (shown, never a gate)."""
    install_peers(s)
    s.run("python", "benchmarks/copies.py", *s.posargs)


@session("instructions", tags=CI, requires=WHEEL)
def instructions(s: nox.Session) -> None:
    """Instructions of dlshim's own cases, by valgrind: none may cost more than before."""
    install(s, f"numpy=={environments.load()['newest'].pins['numpy']}", "nanobind")
    own = "^(?!torch|peers).*(dlshim|floor|direct|inner|upgrade)$|^legacy to numpy .* bare$"
    own += r"|^peers consume (numpy|legacy) \| (dlshim\.h.*|nanobind)$"
    groups = "calls,pieces,dimensions,tables,journeys,copies,consumes"
    s.run("python", "benchmarks/instructions.py", "--groups", groups, "--select", own, *s.posargs)


@session("instructions-all", requires=WHEEL)
def instructions_all(s: nox.Session) -> None:
    """The same beside every peer, with the journeys."""
    install_peers(s)
    s.run("python", "benchmarks/instructions.py", *s.posargs)
