"""This machine, whatever the model: what it is, what it can do, and how busy it is."""
