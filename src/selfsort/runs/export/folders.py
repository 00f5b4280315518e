"""A finished run as folders of images, and how any export is built beside its place and put there when complete."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from types import ModuleType
from typing import Literal

from PIL import Image

from selfsort.data import Dataset
from selfsort.errors import CannotWrite, InvalidInput, SelfsortError
from selfsort.progress import track
from selfsort.runs.export.move import can_move_to, is_interrupted, move_pictures
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels, current_labels
from selfsort.runs.moved import recorded_reading
from selfsort.runs.table import LabelTable
from selfsort.types import U8

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Mode = Literal["copy", "hardlink", "symlink", "move"]


def _hardlink(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP):
            raise
        raise InvalidInput(
            f"{source} cannot be linked to {target.parent} ({error.strerror}). Expected both on one disk that has hard "
            "links. Use --mode copy or symlink."
        ) from error


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


PLACED: dict[Mode, Callable[[Path, Path], object]] = {"copy": _copy, "hardlink": _hardlink, "symlink": os.symlink}
"""How a file gets its place in a new folder."""

_SCRATCH = ".selfsort-export-"
_naming = threading.Lock()
WRONG_TITLE = "marked wrong"
_WRONG = 2**62
"""Stands for the cluster of images marked wrong: after all others, whose names go first."""
_NAME_BYTES = 240
"""File systems allow 255; the rest is for numbering names that occur twice."""

_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
"""Names that Windows takes for a device, whatever comes after a dot."""


def export_folders(
    folder: RunFolder,
    out: Path,
    labels: RunLabels | None = None,
    *,
    mode: Mode = "copy",
    is_numbered: bool = False,
    above: Mapping[int, tuple[str, ...]] | None = None,
) -> Path:
    """Put every image into a folder named after its cluster, as a copy, as a link, or itself.

    The tree is built under a temporary name and renamed when complete, so a failure leaves nothing behind.

    Args:
        folder: a finished run.
        out: the folder to make.
        labels: the clusters of its images; None for those of the run with all corrections.
        mode: what happens to files; those of an array are always written.
        is_numbered: add a number to a name that is taken, where it would be refused otherwise.
        above: names of the folders that a cluster's own lies in, if any.

    Returns:
        Where the tree is.
    """
    labels = labels or current_labels(folder)
    further = (out.with_name(f"{out.name}-{number}") for number in count(2))
    candidates = chain([out], further if is_numbered else ())
    if mode == "move":
        out = next((place for place in candidates if can_move_to(folder, place)), out)
        if is_interrupted(folder, out):
            return move_pictures(folder, out, (), (), ())  # as it was planned
        is_taken = not can_move_to(folder, out)
    else:
        is_taken = os.path.lexists(out) and not is_numbered
    if is_taken:
        raise _exists(out)
    dataset = read_images_of(folder, labels.table)
    if mode != "copy" and dataset.paths is None:
        raise InvalidInput(
            f"--mode {mode} needs images that are files, and this run's came from an array. Expected --mode copy. "
            "Leave it out."
        )
    if mode == "move" and dataset.paths is not None:
        places = planned_places(labels, _names(dataset.paths), above)
        return move_pictures(folder, out, dataset.paths, labels.table.names, places)
    return build_beside(
        out, lambda tree: build_folders(tree, labels, dataset, mode=mode, above=above), is_numbered=is_numbered
    )


def build_beside(out: Path, build: Callable[[Path], None], *, is_numbered: bool) -> Path:
    """Fill a folder under a temporary name and put it in its place when it is complete.

    Args:
        out: the place.
        build: fills a folder that it makes.
        is_numbered: add a number to a name that is taken, where it would be refused otherwise.
    """
    if os.path.lexists(out) and not is_numbered:
        raise _exists(out)
    further = (out.with_name(f"{out.name}-{number}") for number in count(2))
    with scratch_in(out.parent) as scratch:
        (scratch / "tree").mkdir()
        build(scratch / "tree")
        place = put(scratch / "tree", chain([out], further if is_numbered else ()))
    if place is None:
        raise _exists(out)
    return place


@contextmanager
def scratch_in(parent: Path) -> Iterator[Path]:
    """Make a hidden folder to build an export in, and take it away in the end.

    A kill leaves it; so it is locked as long as somebody builds in it, and those that nobody holds are removed.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{_SCRATCH}*"):
            _remove_abandoned(left)
        with _locked_folder(parent) as scratch:
            yield scratch
    except SelfsortError:
        raise
    except OSError as error:
        raise CannotWrite(
            f"{parent} could not be written ({error.strerror or error}). Expected a writable place with enough space. "
            "Free some space or choose another --out; nothing half-written was left."
        ) from error


def put(made: Path, places: Iterable[Path]) -> Path | None:
    """Give what was made the first name that is free, and return it; None if all are taken."""
    with _naming:  # a file would replace another that was put there since we looked
        for place in places:
            if os.path.lexists(place):
                continue
            try:
                return made.rename(place)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was quicker
                    raise
    return None


def read_images_of(folder: RunFolder, table: LabelTable) -> Dataset:
    """Read the images of a run from its source again; others than the run's are refused."""
    reading = recorded_reading(folder, table.names)
    dataset = reading.read(min_images=1)
    # Files are known by their names; rows of an array have only their pixels to be known by.
    is_other = dataset.paths is None and dataset.fingerprint != folder.field("fingerprint", str)
    if dataset.names != table.names or is_other:
        raise InvalidInput(
            f"the images in {reading.path} are not those of the run {folder.path}. "
            "Expected the same images. Restore the source, say where they are now with --source, or use --to csv."
        )
    return dataset


def build_folders(
    tree: Path,
    labels: RunLabels,
    dataset: Dataset,
    *,
    mode: Mode = "copy",
    above: Mapping[int, tuple[str, ...]] | None = None,
) -> None:
    """Sort images into a new folder; those that came out of an array file are written as PNG.

    Args:
        tree: the folder to make.
        labels: the clusters of the images.
        dataset: the images, in the order of the labels.
        mode: copy, hardlink or symlink.
        above: names of the folders that a cluster's own lies in, if any.
    """
    put_file = PLACED[mode]
    names = [f"{name}.png" for name in labels.table.names] if dataset.paths is None else _names(dataset.paths)
    places = planned_places(labels, names, above)
    for row, place in track(enumerate(places), "exporting", len(places)):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        if dataset.paths is None:
            save_png(dataset.images.pixels[row], tree / place)
        else:
            put_file(dataset.paths[row], tree / place)


def _names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]


def planned_places(
    labels: RunLabels, names: Sequence[str], above: Mapping[int, tuple[str, ...]] | None = None
) -> list[Path]:
    """Return where each image goes; those marked wrong have a folder of their own, and no two go to one place.

    Args:
        labels: the clusters of the images.
        names: of the files, one for each image.
        above: names of the folders that a cluster's own lies in, if any.
    """
    titles = {cluster: Path(title) for cluster, title in folder_titles(labels).items()}
    if above:
        titles = {cluster: Path(*above.get(cluster, ()), title) for cluster, title in titles.items()}
        titles[_WRONG] = Path(WRONG_TITLE)  # beside the groups, none of which is called so
    taken: set[str] = set()
    found = []
    for name, cluster, is_wrong in zip(names, labels.table.labels.tolist(), labels.is_wrong.tolist(), strict=True):
        found.append(free_place(titles[_WRONG if is_wrong else cluster] / safe_name(name), taken))
    return found


def free_place(path: Path, taken: set[str]) -> Path:
    """Number a place that is taken: files of one name may come from several folders, or differ in capitals alone."""
    candidate, number = path, 2
    while str(candidate).casefold() in taken:
        candidate, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    taken.add(str(candidate).casefold())
    return candidate


def folder_titles(labels: RunLabels) -> dict[int, str]:
    """Call every folder by the name that a person gave to its cluster, by a suggested one, or by its number."""
    used, outliers = sorted(set(labels.table.labels.tolist())), labels.table.outliers
    width = max(2, len(str(used[-1])))
    plain = {cluster: "outliers" if cluster == outliers else f"cluster-{cluster:0{width}d}" for cluster in used}
    names = {cluster: labels.given_name(cluster) or name for cluster, name in plain.items()}
    return folder_names({**names, _WRONG: WRONG_TITLE})


def folder_names(names: Mapping[int, str]) -> dict[int, str]:
    r"""Turn names of clusters into different, harmless names of folders.

    >>> folder_names({0: "cats/dogs", 1: "..", 2: "Cats-dogs"})
    {0: 'cats-dogs', 1: '_', 2: 'Cats-dogs-2'}
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    for cluster, name in sorted(names.items()):
        plain = safe_name(re.sub(r'[/\\:*?"<>|]', "-", name).lstrip("."), for_windows=True)
        candidate, number = plain, 2
        # Some file systems do not tell capitals from small letters.
        while candidate.casefold() in taken:
            candidate, number = f"{plain}-{number}", number + 1
        taken.add(candidate.casefold())
        found[cluster] = candidate
    return found


def safe_name(name: str, *, for_windows: bool = os.name == "nt") -> str:
    """Reduce a name from a run folder to one harmless file name.

    >>> safe_name("../../etc/passwd"), safe_name("cats/a b.jpg"), safe_name("..")
    ('passwd', 'a b.jpg', '_')
    >>> [safe_name(name, for_windows=True) for name in ("C:evil", "con.png", "a. .")]
    ['C_evil', '_con.png', 'a']
    """
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1].replace("\0", "")
    if len(os.fsencode(last)) > _NAME_BYTES:
        suffix = Path(last).suffix[:10]
        last = os.fsencode(last)[: _NAME_BYTES - 40].decode("utf-8", "ignore") + suffix
    if for_windows:
        last = re.sub(r'[\x01-\x1f<>:"|?*]', "_", last).rstrip(". ")
        last = f"_{last}" if _DEVICE.match(last) else last
    return "_" if last in ("", ".", "..") else last


def free_path(path: Path) -> Path:
    """Number a path that is taken: files of one name may come from several folders."""
    candidate, number = path, 2
    while candidate.exists() or candidate.is_symlink():
        candidate, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return candidate


def save_png(pixels: U8, path: Path) -> None:
    """Write one image, gray or RGB."""
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(path, format="PNG")


@contextmanager
def _locked_folder(parent: Path) -> Iterator[Path]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
        try:
            lock = _open_lock(folder)
        except FileNotFoundError:  # taken for an abandoned one before it could be locked
            continue
        try:
            if _is_held(lock) is False or not os.fstat(lock).st_nlink:
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        finally:
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    try:
        lock = _open_lock(folder)
    except OSError:  # gone meanwhile, or somebody else's
        return
    try:
        if _is_held(lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _open_lock(folder: Path) -> int:
    return os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _is_held(lock: int) -> bool | None:
    """Lock an open file until it is closed; False if another has it, None if there are no locks here."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _exists(out: Path) -> InvalidInput:
    return InvalidInput(f"the output {out} exists already. Expected a new folder. Choose another --out.")
