"""Screens that open over the chat: help, resume, and questions."""
