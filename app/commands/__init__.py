"""One module a command of ``qwen38``; nothing heavy is imported before a command runs."""
