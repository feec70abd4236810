"""A mistake's sentence comes apart into what was got, what is allowed and what to do."""

from __future__ import annotations

import pytest

from rigctl.config.wording import Parts, number_meant, parts_of, quantity_meant
from rigctl.flaws import shown

SENTENCES = {
    'got "5 mM", must be a duration such as "20 min"; mM cannot be converted to s': Parts(
        '"5 mM"', 'must be a duration such as "20 min"', "mM cannot be converted to s"
    ),
    "got {coil: 1, on: 3}, must differ": Parts("{coil: 1, on: 3}", "must differ", None),
    'got "a, must b; c", must be d; e; f': Parts('"a, must b; c"', "must be d", "e; f"),
    'got "=" at column 4 of "ph = 4", must be < or >': Parts('"="', "must be < or >", None),
    'unknown key, must be one of a, b; did you mean "a"?': Parts(None, "must be one of a, b", 'did you mean "a"?'),
    "is missing, must be given": Parts(None, "must be given", None),
    'got "off-by-one", which is no sensor (driver x; y)': Parts('"off-by-one"', None, None),
    'got the brace "{", which is not closed; write "}" at its end': Parts(
        'the brace "{"', None, 'write "}" at its end'
    ),
    "": Parts(None, None, None),
}


@pytest.mark.parametrize(("what", "parts"), SENTENCES.items())
def test_a_sentence_comes_apart(what, parts):
    """Commas and semicolons in quotes or brackets part nothing; what is not said is None."""
    assert parts_of(what) == parts


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "nothing"), (True, "true"), ("yes", '"yes"'), ([1.5, None], "[1.5, ]"), ({"a": [1]}, "{a: [1]}")],
)
def test_a_value_is_shown_as_the_file_has_it(value, said):
    """In YAML, not in Python; long ones are cut."""
    assert shown(value) == said
    assert len(shown("x" * 999)) == 60


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("1_000", "write 1000"),
        ("0o17", "write 15"),
        ("6", "remove the quotes"),
        ("5,2", "write 5.2"),
        ("x", ""),
    ],
)
def test_what_looks_like_a_number_is_recognised(value, remedy):
    """And what it would be in YAML 1.2; anything else has no remedy."""
    assert number_meant(value) == remedy
    assert number_meant("six") == ""


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("1:30", 'write "90 min", or "90 s"'),
        ("7:00", 'write "420 min", or "7 min"'),
        ("0:20:00", 'write "20 min"'),
        ("40 EUR,", 'write "40 EUR"'),
        ("9 EUR per L", 'write "9 EUR/L"'),
        ("0:00:20", 'write "20 s"'),
        ("$5", 'write "5 USD"'),
        ("20 min", ""),
        ("60,5 EUR", 'write "60.5 EUR"'),
        ("1.000,50 EUR", 'write "1000.50 EUR"'),
        ("1,234,567.5 EUR", 'write "1234567.5 EUR"'),
        ("1,000,000 EUR", 'write "1000000 EUR"'),
    ],
)
def test_foreign_forms_of_quantities_are_recognised(text, remedy):
    """Times with colons, signs of currencies; what is as it should be has no remedy."""
    assert quantity_meant(text) == remedy
