from __future__ import annotations

from selfsort.data.words import kinds_in_words


def test_videos_and_documents_are_named_as_such() -> None:
    assert kinds_in_words({".mov": 2, ".pdf": 1, ".docx": 1}) == "2 videos, 2 documents"
    assert kinds_in_words({".strange": 1}) == "1 other file"
    assert kinds_in_words({}) == ""
