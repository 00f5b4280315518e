from __future__ import annotations

from pathlib import Path

import pytest

from selfsort.errors import InvalidInput, MissingData
from selfsort.names.lists import MOST_WORDS, checked_words, everyday_words, read_list, unknown_line


def test_lines_are_words(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeffDogs\r\n\r\n  # not this\n Straßencafés \ndogs\nold\ttowns\n".encode())
    assert read_list(path) == ("Dogs", "Straßencafés", "old towns")


def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"does not exist\. Expected a text file with one word on each line"):
        read_list(tmp_path / "none.txt")
    with pytest.raises(InvalidInput, match="be a file that can be read"):
        read_list(tmp_path)
    (tmp_path / "picture.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(InvalidInput, match="be text in UTF-8"):
        read_list(tmp_path / "picture.jpg")
    (tmp_path / "zeros").write_bytes(bytes(10))
    with pytest.raises(InvalidInput, match="be text in UTF-8"):
        read_list(tmp_path / "zeros")


def test_as_many_as_may_be_and_one_more() -> None:
    assert len(checked_words(map(str, range(MOST_WORDS)))) == MOST_WORDS
    with pytest.raises(InvalidInput, match="at most 2,000 words"):
        checked_words(map(str, range(MOST_WORDS + 1)))


def test_the_list_that_comes_along() -> None:
    words = everyday_words()
    assert len(words) > 300
    assert {"dogs", "mountains", "receipts"} <= set(words)
    lines = (Path(read_list.__code__.co_filename).parent / "everyday.txt").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and line[0] != "#"]) == len(words), "none stands there twice"


def test_strange_words_are_listed_but_not_all_of_them() -> None:
    assert unknown_line(["Dogs"], ["dogs"], "x") == ""
    assert unknown_line([f"w{i}" for i in range(12)], [], "x").endswith("w8, w9 and 2 more")
