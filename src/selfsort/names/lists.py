"""Lists of words that clusters may be called by: one that a person gives, or everyday words for photographs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from selfsort.errors import InvalidInput, MissingData, invalid
from selfsort.text import one_line, plural, printable

MOST_WORDS = 2000
"""More would say little more, and each is read by a network."""
LONGEST = 70
"""Letters of a word: less than a person may type as a name, so that there is room for a number."""
_LARGEST = 1 << 20
_COMMENT = "#"


def read_list(path: Path) -> tuple[str, ...]:
    """Read a text file with a word or phrase on each line; empty lines and those that begin with # are left out."""
    name = f"the words file {printable(path.name)}"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise MissingData(
            f"{printable(str(path))} does not exist. Expected a text file with one word on each line. Check the path."
        ) from None
    except OSError as error:
        raise invalid(name, "be a file that can be read", error.strerror, "Check the path.") from None
    if len(content) > _LARGEST:
        raise invalid(name, "be at most 1 MB", "more", "Leave words out.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid(
            name, "be text in UTF-8", "other bytes", "Save it as plain text, one word on each line."
        ) from None
    if "\0" in text:
        raise invalid(name, "be text in UTF-8", "other bytes", "Save it as plain text, one word on each line.")
    return checked_words((line for line in text.splitlines() if not line.lstrip().startswith(_COMMENT)), name)


def checked_words(given: Iterable[str], name: str = "words") -> tuple[str, ...]:
    """Return words as they can be used: each once, on one line, not too many and not too long.

    >>> checked_words(["Dogs ", "", "old  towns", "dogs"])
    ('Dogs', 'old towns')
    """
    found: dict[str, str] = {}
    for line in given:
        word = one_line(line, LONGEST + 1)
        if len(word) > LONGEST:
            raise invalid(
                name,
                f"have words of at most {LONGEST} letters",
                f"{word[:30]!r}...",
                "Write one word or phrase a line.",
            )
        if word:
            found.setdefault(word.casefold(), word)
        if len(found) > MOST_WORDS:
            raise invalid(name, f"have at most {MOST_WORDS:,} words", "more", "Leave those out that you do not need.")
    if not found:
        raise InvalidInput(f"{name} has no words. Expected some, one on each line. Write down what you look for.")
    return tuple(found.values())


@cache
def everyday_words() -> tuple[str, ...]:
    """Return the words that come with selfsort: what people photograph, in the plural."""
    return read_list(Path(__file__).parent / "everyday.txt")


def unknown_line(words: Iterable[str], known: Iterable[str], whose: str) -> str:
    """Say in one line which words cannot be used; empty if all can.

    >>> unknown_line(["dogs", "griffins"], ["dogs"], "efficientnet-lite0")
    'efficientnet-lite0 does not know 1 word of the list, which will name nothing: griffins'
    """
    there = {word.casefold() for word in known}
    strange = [word for word in words if word.casefold() not in there]
    if not strange:
        return ""
    shown = ", ".join(strange[:10]) + (f" and {len(strange) - 10} more" if len(strange) > 10 else "")
    return f"{whose} does not know {plural(len(strange), 'word')} of the list, which will name nothing: {shown}"
