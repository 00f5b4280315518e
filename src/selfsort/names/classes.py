"""Everyday words for the 1,000 classes of ImageNet, which many encoders were trained on: dogs, not 118 breeds.

An encoder that has kept its head for these classes says of each picture how likely each is. The classes of a word are
added up; a word holds where that is a good part of all and twice what any other word has. A head that has never seen
such a picture spreads what it believes over all classes, which gives words of many classes a little: too little.
Classes that no everyday word stands for say nothing. The numbers are those of the usual order of the classes.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from selfsort.names.clear import clear_words
from selfsort.types import F32

N_CLASSES = 1000

_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "fish": ((0, 6), (389, 397)),
    "birds": ((7, 24), (80, 100), (127, 146)),
    "frogs": ((30, 32),),
    "turtles": ((33, 37),),
    "lizards": ((38, 48),),
    "snakes": ((52, 68),),
    "spiders": ((72, 77),),
    "crabs": ((118, 125),),
    "whales": ((147, 148),),
    "dogs": ((151, 268),),
    "wolves and foxes": ((269, 280),),
    "cats": ((281, 285),),
    "big cats": ((286, 293),),
    "bears": ((294, 297),),
    "insects": ((300, 320),),
    "butterflies": ((321, 326),),
    "rabbits": ((330, 332),),
    "horses": ((339, 339),),
    "pigs": ((341, 343),),
    "cattle": ((345, 347),),
    "sheep and goats": ((348, 350),),
    "monkeys": ((365, 382),),
    "elephants": ((101, 101), (385, 386)),
    "food": ((924, 935), (959, 965)),
    "fruit and vegetables": ((936, 957),),
    "drinks": ((966, 969),),
    "mushrooms": ((947, 947), (991, 997)),
    "flowers": ((984, 986),),
}

_SINGLE: dict[str, tuple[int, ...]] = {
    "cars": (407, 436, 468, 511, 609, 627, 656, 661, 751, 817),
    "trucks": (555, 569, 675, 717, 864, 867),
    "buses": (654, 779, 874),
    "trains": (466, 547, 565, 705, 820, 829),
    "boats": (403, 472, 484, 510, 554, 576, 625, 628, 724, 780, 814, 871, 914),
    "aeroplanes": (404, 895),
    "bicycles": (444, 671, 870, 880),
    "motorcycles": (665, 670),
    "dresses": (399, 578, 601, 614, 655, 689, 775),
    "trousers": (608,),
    "coats and shirts": (474, 501, 568, 610, 617, 652, 697, 735, 834, 841, 869, 887),
    "hats": (433, 439, 452, 515, 667, 715, 793, 808),
    "shoes": (502, 514, 630, 770, 774),
    "mountains": (970, 972, 979, 980),
    "shores": (460, 975, 976, 977, 978),
    "buildings": (425, 437, 449, 483, 497, 538, 663, 668, 682, 698, 832, 853, 858, 873),
    "bridges": (821, 839, 888),
    "furniture": (423, 453, 493, 495, 526, 532, 559, 564, 765, 831, 857, 894),
    "computers": (508, 527, 620, 664, 673, 681, 782),
    "web pages": (916,),
    "printed pages": (917, 918, 921, 922),
    "clocks": (409, 530, 531, 826, 892),
    "instruments": (
        *(401, 402, 420, 432, 486, 513, 541, 546, 558, 566, 579, 593),
        *(594, 683, 684, 687, 699, 776, 875, 881, 889),
    ),
    "balls": (429, 430, 522, 574, 722, 768, 805, 852, 890),
}


def _numbers() -> dict[str, tuple[int, ...]]:
    ranged = {
        word: tuple(number for first, last in spans for number in range(first, last + 1))
        for word, spans in _RANGES.items()
    }
    return ranged | _SINGLE


WORDS: dict[str, tuple[int, ...]] = _numbers()
"""The classes of each word."""


def class_words(likely_NC: F32, among: Collection[str] | None = None) -> list[tuple[str, ...]]:
    """Return the word of each picture, where one is clear.

    Args:
        likely_NC: how likely each class is.
        among: the words that may be said, whatever their case; the others are rivals still: a wolf is no dog because
            nobody asked for wolves.

    >>> likely = np.zeros((2, N_CLASSES), np.float32)
    >>> likely[0, [151, 207]], likely[1, [0, 151]] = 0.2, 0.3
    >>> class_words(likely), class_words(likely, ["cats"])
    ([('dogs',), ()], [(), ()])
    """
    together = np.stack([likely_NC[:, list(numbers)].sum(axis=1) for numbers in WORDS.values()], axis=1)
    found = clear_words(together, list(WORDS))
    if among is None:
        return found
    asked = {word.casefold(): word for word in among}
    return [tuple(asked[word] for word in words if word in asked) for words in found]
