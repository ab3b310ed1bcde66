"""One turn: read the prompt, then rounds of draft, verify, accept, host, until a reason to end."""
