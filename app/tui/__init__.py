"""The full-screen chat: a transcript, a message box, figures, and one bridge to the engine."""
