"""The one base class of errors that the user can cause and correct."""


class UserError(Exception):
    """A one-line message with the place and the remedy; the command line prints it and exits with status 2."""
