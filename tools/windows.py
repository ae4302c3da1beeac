"""What a compiler needs to make an extension for Windows without a Windows: headers, python3.lib.

tools/wheels.py uses it.  The import library is made from abi3info, so it offers exactly the stable
ABI of the floor: a function that is not in it does not link.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FLOOR = (3, 10)
#: What CPython's PC/pyconfig.h says of 64 bits, as far as the headers of the limited API read it.
CONFIG = """
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define HAVE_SYS_STAT_H 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_TIME_T 8
#define ALIGNOF_SIZE_T 8
"""
#: How zig's dlltool names processors.
MACHINES = {"x86_64": "i386:x86-64", "aarch64": "arm64"}


def definitions() -> str:
    """The names that python3.dll of the floor exports, as a module definition file."""
    from abi3info import DATAS, FUNCTIONS

    names = []
    for table, kind in ((FUNCTIONS, ""), (DATAS, " DATA")):
        for symbol, entry in table.items():
            here = entry.ifdef is None or entry.ifdef.windows is True
            if here and (entry.added.major, entry.added.minor) <= FLOOR:
                names.append(f"    {symbol.name}{kind}")
    return "\n".join(["LIBRARY python3.dll", "EXPORTS", *sorted(names)]) + "\n"


#: What the module calls of the C library that is a part of Windows, and of Windows itself.  zig's
#: own start of a library and its copy of C functions are left out: they are a third of the file.
SYSTEM = {
    "api-ms-win-crt-convert-l1-1-0.dll": "strtol strtoll",
    "api-ms-win-crt-heap-l1-1-0.dll": "free malloc",
    "api-ms-win-crt-private-l1-1-0.dll": "memchr memcmp memcpy memmove strchr",
    "api-ms-win-crt-stdio-l1-1-0.dll": "__stdio_common_vsprintf",
    "api-ms-win-crt-string-l1-1-0.dll": "memset strcat strcmp strcpy strcspn strlen strncmp",
    "api-ms-win-crt-time-l1-1-0.dll": "_timespec64_get",
    "api-ms-win-crt-utility-l1-1-0.dll": "llabs",
    "KERNEL32.dll": "GetModuleHandleExA GetProcAddress LoadLibraryExA",
}
#: What Windows calls when it has mapped the module, and two functions that are not in its library.
START = """
#include <stdarg.h>
#include <stddef.h>

int __stdio_common_vsprintf(unsigned long long, char *, size_t, const char *, void *, va_list);

int
DllMainCRTStartup(void *module, unsigned long reason, void *reserved)
{
    (void)module, (void)reason, (void)reserved;
    return 1;
}

int
vsnprintf(char *text, size_t size, const char *format, va_list arguments)
{
    return __stdio_common_vsprintf(2, text, size, format, NULL, arguments); /* as in C99 */
}

int
snprintf(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}
"""


def import_library(folder: Path, processor: str, stem: str, text: str) -> str:
    """Of a module definition file; what the linker is told."""
    names = folder / f"{stem}.def"
    names.write_text(text)
    line = [sys.executable, "-m", "ziglang", "dlltool", "-m", MACHINES[processor]]
    subprocess.run([*line, "-d", str(names), "-l", str(folder / f"lib{stem}.a")], check=True)
    return f"-l{stem}"


def flags(folder: Path, zig: str, include: Path) -> list[str]:
    """Makes all of it in `folder`, from the floor's headers in `include`."""
    copy = folder / "headers"
    shutil.copytree(include, copy)
    (copy / "pyconfig.h").write_text(CONFIG)
    processor = zig.partition("-")[0]
    libraries = [import_library(folder, processor, "python3", definitions())]
    for library, names in SYSTEM.items():
        text = "\n    ".join([f"LIBRARY {library}\nEXPORTS", *names.split()]) + "\n"
        libraries.append(import_library(folder, processor, Path(library).stem, text))
    (folder / "start.c").write_text(START)
    start = folder / "start.o"
    line = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "-Os", "-fno-builtin", "-c"]
    line += ["-fno-unwind-tables", str(folder / "start.c"), "-o", str(start)]
    subprocess.run(line, check=True)
    return [f"-I{copy}", f"-L{folder}", "-nostdlib", str(start), *libraries]


def rename_module(wheel: Path) -> None:
    """Windows looks for modules under another ending."""
    tool = [sys.executable, "-m", "wheel"]
    folder = wheel.parent / "unpacked"
    subprocess.run(
        [*tool, "unpack", "-d", str(folder), str(wheel)], check=True, stdout=subprocess.DEVNULL
    )
    (tree,) = folder.iterdir()
    module = tree / "dlshim" / "_core.abi3.so"
    module.rename(module.with_name("_core.pyd"))
    for stale in module.parent.glob("*.lib"):  # for programs that would link with the module
        stale.unlink()
    wheel.unlink()
    pack = [*tool, "pack", "-d", str(wheel.parent), str(tree)]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
