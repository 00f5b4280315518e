from __future__ import annotations

import numpy as np

from selfsort.names.classes import N_CLASSES, WORDS, class_words


def test_every_class_is_one_of_the_thousand_and_few_have_two_words() -> None:
    numbers = [number for of_word in WORDS.values() for number in of_word]
    assert min(numbers) >= 0
    assert max(numbers) < N_CLASSES
    twice = {number for number in numbers if numbers.count(number) > 1}
    assert twice == {947}, "a mushroom is food, too"
    assert all(len(set(of_word)) == len(of_word) for of_word in WORDS.values())


def test_a_word_wants_a_good_part_and_twice_the_next() -> None:
    likely = np.zeros((4, N_CLASSES), np.float32)
    likely[0, [281, 282]] = 0.1  # cats
    likely[1, 281] = 0.19  # too little
    likely[2, [281, 151]] = 0.3, 0.2  # cats or dogs
    likely[3] = 1 / N_CLASSES  # has never seen the like: not dogs, though they have most classes
    assert class_words(likely) == [("cats",), (), (), ()]


def test_a_list_lets_some_words_be_said_and_keeps_the_others_as_rivals() -> None:
    likely = np.zeros((2, N_CLASSES), np.float32)
    likely[0, 281] = 0.5  # a cat
    likely[1, [281, 151]] = 0.3, 0.6  # rather a dog
    assert class_words(likely, ["Cats"]) == [("Cats",), ()]
