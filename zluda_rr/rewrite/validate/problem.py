"""What ends a validation early."""

from __future__ import annotations


class NotShown(Exception):  # noqa: N818 - no error: the answer "not equal, as far as is known"
    """The kernels are not shown equal; the message says where and why."""
