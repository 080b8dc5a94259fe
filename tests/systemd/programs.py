"""The programs of the bed inside a container. They are built on this machine, for its glibc."""

import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = "/opt/bed"
LIBRARIES = f"{HERE}/lib"


def install(container, program):
    """Copies a program; where glibc is older, with the libraries of this machine.

    The programs that are tested, those of the packages, always run with the libraries of the suite.
    """
    container.path(HERE).mkdir(parents=True, exist_ok=True)
    copy = Path(shutil.copy2(program, container.path(HERE)))
    if glibc(container.run("getconf", "GNU_LIBC_VERSION").stdout) >= glibc(os.confstr("CS_GNU_LIBC_VERSION")):
        return
    container.path(LIBRARIES).mkdir(exist_ok=True)
    linked = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    libraries = {os.path.basename(library): library for library in re.findall(r"(/\S+) \(0x", linked)}
    # A program that runs has mapped those of an earlier one.
    for name in libraries.keys() - set(os.listdir(container.path(LIBRARIES))):
        shutil.copy(libraries[name], container.path(LIBRARIES))
    loader = next(name for name in libraries if name.startswith("ld-"))
    subprocess.run(
        ["patchelf", "--set-interpreter", f"{LIBRARIES}/{loader}", "--set-rpath", LIBRARIES, copy], check=True
    )


def glibc(said):
    """The version in "glibc 2.36"."""
    return tuple(map(int, said.split()[1].split(".")))
