from __future__ import annotations

import re

from selfsort.data.class_lists import CLASS_LISTS


def test_as_many_classes_as_the_papers_have() -> None:
    assert {name: len(set(classes)) for name, classes in CLASS_LISTS.items()} == {
        "imagenet-10": 10,
        "imagenet-dog": 15,
        "tiny-imagenet": 200,
    }
    assert all(re.fullmatch(r"n\d{8}", one) for classes in CLASS_LISTS.values() for one in classes)


def test_classes_that_the_lists_share() -> None:
    ten, dog, tiny = (set(CLASS_LISTS[name]) for name in ("imagenet-10", "imagenet-dog", "tiny-imagenet"))
    assert ten & dog == {"n02085936"}
    assert ten & tiny == {"n02056570", "n04285008", "n07747607"}
    assert dog & tiny == {"n02099601"}
