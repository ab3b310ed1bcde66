"""Weight profiles and the embedded demo model: data only, read by engine/profile.py."""
