"""The terminal app: commands, screens and sessions. It knows no tensor."""
