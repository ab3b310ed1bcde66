"""How a person reads a number of bytes: one way everywhere, in units of 1000."""

UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def size_text(num_bytes: float) -> str:
    """A size with its unit, such as 15.4 GB, 27.1 MB or 512 B."""
    for unit, scale in UNITS:
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes:.0f} B"
