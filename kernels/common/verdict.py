"""Hold what checks found, and refuse to time what is red or was not checked."""

from dataclasses import dataclass


class RedCheckError(RuntimeError):
    """A family was to be timed whose check is red or missing."""


@dataclass(frozen=True)
class Finding:
    """One proof on one case.

    Attributes:
        family: name of the family.
        build: what ran: "torch" (the CPU path), "interpreter", or "cuda".
        subject: the function and its case, or the name of a law.
        proof: what was to be proven.
        fault: None when it holds, else why not.
    """

    family: str
    build: str
    subject: str
    proof: str
    fault: str | None


@dataclass(frozen=True)
class Report:
    """All findings of a run of checks."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when something was checked and nothing is red."""
        return bool(self.findings) and not self.red

    @property
    def red(self) -> tuple[Finding, ...]:
        """The findings with a fault."""
        return tuple(finding for finding in self.findings if finding.fault)

    def require_green(self, family: str, build: str) -> None:
        """Refuse to go on unless this build of the family was checked and is green.

        Raises:
            RedCheckError: it was not checked, or is red; the message holds the first fault.
        """
        own = [f for f in self.findings if (f.family, f.build) == (family, build)]
        if not own:
            raise RedCheckError(f"{family} was not checked as {build}; check it before timing it")
        for finding in own:
            if finding.fault:
                raise RedCheckError(
                    f"{family} is red and is not timed: {finding.subject}: {finding.proof}: "
                    f"{finding.fault}"
                )
