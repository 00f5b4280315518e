"""What is installed is what was tested: pinned, hashed, with known licences."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from supply import licences

ROOT = Path(__file__).parents[1]
LOCKS = [ROOT / "requirements.lock", ROOT / "supply" / "tools.lock", ROOT / "supply" / "docs.lock"]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins() -> dict[str, str]:
    """The versions of constraints.txt, which is the file that people edit."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in wanted}


def makefile_extras() -> list[str]:
    found = re.search(r"^EXTRAS := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1].split()


def needed() -> set[str]:
    """Everything that we and the tested extras need on this system, by what the installed packages say."""
    project = pyproject()["project"]
    listed = [text for extra in makefile_extras() for text in project["optional-dependencies"][extra]]
    waiting = [Requirement(text) for text in [*project["dependencies"], *listed]]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in seen:
            continue
        seen.add(name)
        try:
            inner = [Requirement(text) for text in requires(name) or []]
        except PackageNotFoundError:  # then the environment is older than the lock
            inner = []
        extras = ["", *wanted.extras]
        waiting += [
            need for need in inner if not need.marker or any(need.marker.evaluate({"extra": e}) for e in extras)
        ]
    return seen


def test_the_lock_holds_the_constraints_and_nothing_else() -> None:
    assert licences.locked() == dict(sorted(pins().items()))


def test_the_lock_covers_what_is_needed() -> None:
    assert needed() <= licences.locked().keys()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_only_pins_and_hashes(lock: Path) -> None:
    pin = r"[a-z0-9.-]+==[^\s;]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(rf"(#.*\n|{pin}|\n)+", lock.read_text(encoding="utf-8"))
    assert not re.search(r"^(torch|triton|nvidia|cuda)\b", lock.read_text(encoding="utf-8"), re.MULTILINE)


def test_torch_is_the_same_everywhere() -> None:
    (described,) = pyproject()["tool"]["uv"]["dependency-metadata"]
    installs = re.findall(r"torch==(\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {*installs, described["version"]} == {pins()["torch"]}
    needs = [Requirement(text) for text in requires("torch") or []]
    always = {canonicalize_name(need.name) for need in needs if not need.marker or need.marker.evaluate({"extra": ""})}
    # A build for CUDA asks for its libraries as well.
    assert set(described["requires-dist"]) >= {name for name in always if not re.match("nvidia|cuda|triton", name)}


def test_the_table_of_licences_is_of_this_lock() -> None:
    rows = re.findall(
        r"^\| ([^ |]+) \| (\d[^ |]*) \| [^|]+ \|$", licences.PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert dict(rows) == licences.locked(), "run make licences"


def test_the_copyleft_parts_of_heic_are_named() -> None:
    text = licences.PAGE.read_text(encoding="utf-8")
    for library in set(licences.bundled_in(licences.find("pillow-heif"))) | {"libheif", "libde265", "libx265"}:
        assert f"| pillow-heif | {library} | {licences.COPYLEFT[library]} |" in text


@pytest.mark.parametrize("name", licences.IN_THEIR_TEXT)
def test_licences_read_by_hand_are_those_of_the_text(name: str) -> None:
    package = licences.find(name)
    assert package is not None
    assert package.metadata["License"] == "UNKNOWN"
    assert "Apache License, Version 2.0" in (package.read_text("LICENSE") or "")
    assert licences.licence_of(name, package) == "Apache-2.0"


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("libgfortran-040039e1-0352e75f.so.5.0.0", "libgfortran"),
        ("libopenblaso-r0-d77a1985.3.15.so", "libopenblaso"),
        ("libscipy_openblas64_-32a4b2a6.so", "libscipy_openblas64_"),
        ("libgomp.so.1", "libgomp"),
    ],
)
def test_libraries_are_known_by_their_names(file: str, library: str) -> None:
    assert licences.library_name(file) == library
