"""The chat without a screen: a prompt, text that scrolls, the same sessions and commands."""
