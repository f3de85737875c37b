"""Devices, one a file."""
