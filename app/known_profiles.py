"""The profiles as a command that opens no model reads them: what is left out is said once."""

from app.report import say
from engine.profile import Profiles, get_profile, load_profiles
from engine.settings.declared import Settings


def known_profiles(settings: Settings, named: str | None = None) -> Profiles:
    """Read every profile; a sentence on stderr for each file that does not read.

    Raises:
        ProfileError: ``named`` is one of these, or there is no such profile.
    """
    profiles = load_profiles(settings.config_dir)
    if named is not None:
        get_profile(named, profiles)
    for notice in profiles.notices:
        say(notice)
    return profiles
