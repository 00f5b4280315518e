from __future__ import annotations

import numpy as np

from selfsort.names.evidence import FEWEST, Suggestion, suggest


def words(*groups: tuple[int, str]) -> list[tuple[str, ...]]:
    return [((word,) if word else ()) for count, word in groups for _ in range(count)]


LABELS = np.repeat([0, 1], 30)


class TestShare:
    def test_a_word_of_most_of_a_cluster_and_of_few_others_names_it(self) -> None:
        found = suggest(LABELS, {"look": words((20, "red"), (10, ""), (6, "red"), (24, ""))})
        assert found == {0: Suggestion("red", "look", 0.6667)}

    def test_fewer_than_two_thirds_do_not_carry(self) -> None:
        assert suggest(LABELS, {"look": words((19, "red"), (41, ""))}) == {}

    def test_a_word_that_others_have_too_does_not_carry(self) -> None:
        assert suggest(LABELS, {"look": words((30, "red"), (11, "red"), (19, ""))}) == {}
        assert suggest(LABELS, {"look": words((30, "red"), (10, "red"), (20, ""))})[0].name == "red"

    def test_a_single_cluster_has_nothing_to_be_told_from(self) -> None:
        assert suggest(np.zeros(30, np.int64), {"look": words((30, "red"))}) == {}

    def test_few_pictures_may_agree_by_chance(self) -> None:
        for size, is_named in ((FEWEST - 1, False), (FEWEST, True)):
            labels = np.repeat([0, 1], [size, 30])
            assert (0 in suggest(labels, {"look": words((size, "red"), (30, ""))})) is is_named

    def test_outliers_have_their_own_name(self) -> None:
        assert suggest(LABELS - 1, {"look": words((30, "red"), (30, ""))}) == {}

    def test_clusters_drawn_by_lot_get_no_names(self) -> None:
        rng = np.random.default_rng(0)
        said = [(word,) for word in rng.choice(["red", "blue", "gray"], 600)]
        assert suggest(rng.integers(0, 12, 600), {"look": said}) == {}


class TestAsked:
    def test_pictures_that_nobody_looked_at_do_not_count(self) -> None:
        some = [("sea",)] * 8 + [None] * 22 + [()] * 8 + [None] * 22
        assert suggest(LABELS, {"seen": some}) == {0: Suggestion("sea", "seen", 1.0)}
        assert suggest(LABELS, {"seen": [None, *some[1:]]}) == {}, "seven may agree by chance"
        assert suggest(LABELS, {"seen": [None] * 60}) == {}

    def test_only_folders_have_parts(self) -> None:
        found = suggest(LABELS, {"seen": words((30, "bars/cafés"), (30, ""))})
        assert found[0].name == "bars/cafés"


class TestChoice:
    def test_the_first_source_that_carries_wins(self) -> None:
        said = {"folder": words((30, "sea"), (30, "")), "look": words((30, "blue"), (30, "green"))}
        found = suggest(LABELS, {"folder": said["folder"], "look": said["look"]})
        assert [(one.name, one.source) for one in found.values()] == [("sea", "folder"), ("green", "look")]

    def test_the_rarer_word_says_more(self) -> None:
        said = [("2024/spring", "2024")] * 22 + [("2024",)] * 8 + [("2024",)] * 5 + [()] * 25
        assert suggest(LABELS, {"folder": said}) == {0: Suggestion("spring", "folder", 0.7333)}

    def test_of_equally_rare_words_the_first_is_taken(self) -> None:
        assert suggest(LABELS, {"date": [("12 July 2023", "2023-07")] * 30 + [()] * 30})[0].name == "12 July 2023"

    def test_no_two_clusters_are_called_alike(self) -> None:
        said = [("a/sea",)] * 30 + [("b/Sea",)] * 30
        assert [one.name for one in suggest(LABELS, {"folder": said}).values()] == ["sea", "Sea 2"]

    def test_what_cannot_be_shown_is_no_part_of_a_name(self) -> None:
        said = [("x\n\u202ey\udce9" + "z" * 200,)] * 30 + [("\x1f \u2028",)] * 30
        for one in suggest(LABELS, {"folder": said}).values():
            assert one.name.isprintable()
            assert 0 < len(one.name) <= 70

    def test_places_are_numbered_and_their_degrees_stand_beside(self) -> None:
        said = [("47-48°N 8-9°E",)] * 30 + [("51-52°N 0-1°W",)] * 30
        found = suggest(LABELS, {"place": said})
        assert [(one.name, one.about) for one in found.values()] == [
            ("place 1", "47-48°N 8-9°E"),
            ("place 2", "51-52°N 0-1°W"),
        ]
