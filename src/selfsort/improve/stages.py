"""STAGES: what can be done after a run is finished, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from selfsort.errors import invalid
from selfsort.improve import consensus, cut, self_label, vote
from selfsort.types import Stage

STAGES: dict[str, Stage] = {
    stage.name: stage for stage in (self_label.STAGE, cut.STAGE, consensus.STAGE, vote.UPDATE, vote.CORRECTIONS)
}


def find_stage(name: str, others: Iterable[str] = ()) -> Stage:
    """Look a stage up by name; a near miss is named, be it one of others that can follow a run too."""
    if name in STAGES:
        return STAGES[name]
    known = [*STAGES, *others]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else "`selfsort methods` lists them."
    raise invalid("--stage", f"be one of {', '.join(known)}", repr(name), hint)
