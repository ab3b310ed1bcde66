"""How a person reads numbers: bytes in units of 1000, and things that are counted."""

UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def size_text(num_bytes: float) -> str:
    """A size with its unit, such as 15.4 GB, 27.1 MB or 512 B."""
    for unit, scale in UNITS:
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes:.0f} B"


def counted(number: int, thing: str, form: str = ",") -> str:
    """A number of things, such as 1 row or 3,000 rows; ``form`` is that of the number."""
    return f"{number:{form}} {thing}{'s' * (number != 1)}"
