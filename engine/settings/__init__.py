"""Settings: declared once, typed, with one reader of the environment.

``declared.py`` holds every setting, ``registry.py`` the machinery that resolves them from
default < profile < user file < environment < command line, ``environment.py`` the only access to
the process environment.
"""
