"""How nonsense is made of what makes sense."""

import random

TOKENS: tuple[bytes, ...] = (
    *(b"nan", b"-inf", b"1e400", b"-1e-400", b"9.91E37", b"0x10", b"1_0", b"--5", b"+", b"1e", b"." * 9, b"9" * 400),
    *(b"9" * 5000, b"\x00", b"\x00" * 70, b"\x1b[2J", b"\x1b]52;c;cm0=\x07", b"\x9b31m", b"\xff\xfe", b"\xe2\x80\xae"),
    *(b"\x7f\x08", b"*DONE,1.00\r", b"*DONE,nan\r", b"*DONE,\r"),
    *(b"*RS\r", b"*RE\r", b"*ER\r", b"*OK\r", b"*WA\r", b"*SL\r"),
    *(b"*UV,VCC,3.1\r", b"*TOOFAST\r", b"?", b"?D,", b"?I,", b","),
    *(b",,,,,,,,,", b"\r", b"\n", b"\r\n", b'"', b"'", b"%s%n"),
    *(b"-113,", b'-350,"Queue overflow"\n', b"0", b"{value}", b"A" * 300, b"A" * 70_000, b"\t", b" " * 50),
)  # fmt: skip


CHANGES = ("flip", "flip", "set", "cut", "lose", "double", "repeat", *("insert", "replace") * 2, "noise")


def _change(data: bytearray, rng: random.Random) -> None:
    at, few = rng.randrange(len(data) + 1), rng.randrange(1, 9)
    match rng.choice(CHANGES):
        case "flip" if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case "set" if at < len(data):
            data[at] = rng.randrange(256)
        case "cut":
            del data[at:]
        case "lose":
            del data[at : at + few]
        case "double":
            data[at:at] = data[at : at + 5 * few]
        case "repeat":
            data[:] = data * rng.choice((2, 3, 50))
        case "insert":
            data[at:at] = rng.choice(TOKENS)
        case "replace":
            data[at : at + few] = rng.choice(TOKENS)
        case "noise":
            data[:] = rng.randbytes(rng.randrange(40))


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with up to three changes; some are left as they are, so that states behind an answer are reached."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 1, 1, 2, 3))):
        _change(out, rng)
    return bytes(out)
