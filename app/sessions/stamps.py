"""What marks a line of a session: an id that no other process makes, and the time."""

import secrets
from datetime import UTC, datetime


def new_id() -> str:
    """A message id that no other process makes."""
    return secrets.token_hex(6)


def now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
