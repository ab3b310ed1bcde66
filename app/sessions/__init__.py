"""Conversations on disk: one append-only file of JSON lines each, drafts, and prompt history."""
