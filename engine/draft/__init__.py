"""Who proposes tokens: one interface, and the drafters behind it. They change speed, never text."""
