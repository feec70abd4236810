"""Values that are nearly right are recognised, and what to write instead is said."""

import pytest

from rigctl.config.wording import number_meant, quantity_meant


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
