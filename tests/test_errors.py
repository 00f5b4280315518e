from __future__ import annotations

import pytest

from selfsort import errors


@pytest.mark.parametrize(
    ("error", "python_kind", "exit_code"),
    [
        (errors.InvalidInput, ValueError, 2),
        (errors.MissingData, FileNotFoundError, 2),
        (errors.CannotWrite, OSError, 2),
        (errors.TrainingFailed, RuntimeError, 1),
        (errors.Interrupted, Exception, 3),
        (errors.SelfsortError, Exception, 1),
    ],
)
def test_each_error_is_also_one_that_python_programmers_know(
    error: type[errors.SelfsortError], python_kind: type[Exception], exit_code: int
) -> None:
    assert issubclass(error, python_kind)
    assert error.exit_code == exit_code
    # FileNotFoundError and OSError have a way of their own with arguments; the sentence must survive it.
    assert str(error("one sentence.")) == "one sentence."


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    error = errors.missing_extra("faiss-cpu", "approximate search", "approx")
    assert str(error) == (
        "approximate search needs the package faiss-cpu, which is not installed. "
        'Install it with: pip install "selfsort[approx]".'
    )


def test_in_python_errors_name_arguments() -> None:
    def refuse() -> None:
        with errors.speaking_python():
            raise errors.invalid("--clusters", "be at most 18", 30, "Lower it, or leave --max-bad out.")

    with pytest.raises(errors.InvalidInput, match=r"^n_clusters must .* leave max_bad out\.$"):
        refuse()
