"""What was meant by values that are nearly right, as remedies."""

from __future__ import annotations

import re

from rigctl.flaws import Flaw, got, write

_OPENING, _CLOSING = "([{", ")]}"


def _masked(text: str) -> str:
    """Return as many characters, with those in quotes or brackets made x."""
    out, depth, quoted = [], 0, False
    for sign in text:
        quoted = not quoted if sign == '"' else quoted
        depth += (not quoted) * ((sign in _OPENING) - (sign in _CLOSING))
        out.append("x" if quoted or depth > 0 else sign)
    return "".join(out) if not quoted and depth == 0 else text


def number_meant(value: object) -> str:
    """Return the remedy for what looks like a number but is text, or is whole but has a point or an exponent."""
    if isinstance(value, float) and value.is_integer():
        return f"write {value:.0f}, without a point or an exponent"
    plain = str(value).strip() if isinstance(value, str) else ""
    if re.fullmatch(r"0o[0-7]+", plain):
        return f"write {int(plain, 8)}"
    for old, new in (("_", ""), (" ", ""), (",", "."), ("", "")):
        tried = plain.replace(old, new)
        if (old in plain) and re.fullmatch(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", tried):
            return "remove the quotes" if tried == plain else f"write {tried}"
    return ""


def flag_meant(text: str) -> str:
    """Return the remedy for a word that YAML 1.1 took for true or false."""
    flags = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
    word = text.casefold()
    return f"write {flags[word]}" if word in flags else "remove the quotes" if word in ("true", "false") else ""


def no_name(value: object) -> Flaw:
    """Return what is wrong with what is no name, with the nearest that is one."""
    near = re.sub(r"[^A-Za-z0-9_-]+", "-", value).strip("-") if isinstance(value, str) else ""
    allowed = "must start with a letter (a to z) and contain only letters (a to z), digits, _ or -"
    return got(value, allowed, write(near) if near[:1].isalpha() else "")


def quantity_meant(text: str) -> str:
    """Return the remedy for a quantity in a common foreign form: 0:20:00, 60,5 EUR, 9 €/L."""
    clock = re.fullmatch(r"\s*(\d+):([0-5]?\d)(?::([0-5]?\d))?\s*", text)
    if clock is not None:
        hours, minutes, seconds = int(clock[1]), int(clock[2]), int(clock[3] or 0)
        if seconds:
            return write(f"{3600 * hours + 60 * minutes + seconds} s")
        if clock[3] is not None:
            return write(f"{60 * hours + minutes} min")
        # a stopwatch shows minutes and seconds so, a clock on the wall hours and minutes
        shorter = f"{60 * hours + minutes} s" if minutes else f"{hours} min"
        return f'{write(f"{60 * hours + minutes} min")}, or "{shorter}"'
    signs = {"€": "EUR", "$": "USD", "£": "GBP"}
    plain = re.sub(r"\d[\d.,]*", lambda m: _with_a_point(m[0]), text)
    plain = re.sub(r"\s*[,;]\s*$", "", plain)
    plain = re.sub(r"(?<=[A-Za-z])\s+per\s+(?=[A-Za-z])", "/", plain)
    for sign, code in signs.items():
        plain = re.sub(rf"^\s*{re.escape(sign)}\s*([\d.]+)", rf"\1 {code}", plain)
        plain = re.sub(rf"\s*{re.escape(sign)}", f" {code}", plain)
    return write(bracketed(plain.strip())) if plain != text else ""


def bracketed(price: str) -> str:
    """Put brackets around what a price is per, where that has a division of its own: EUR/(cm2/day), not EUR/cm2/day."""
    found = re.fullmatch(r"(.*[A-Z]{3}\s*/)\s*(.*)", price)
    # the sign is of a power: cm2 day^-1
    return f"{found[1]}({found[2]})" if found is not None and re.search(r"[/-]| per ", _masked(found[2])) else price


def _with_a_point(number: str) -> str:
    """Write 60,5 as 60.5, and of 1.000,50 or 1,000,000 leave out what groups digits."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", number):
        number = number.replace(".", "")
    elif re.fullmatch(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}", number):
        number = number.replace(",", "")
    return re.sub(r"(?<=\d),(?=\d)", ".", number)
