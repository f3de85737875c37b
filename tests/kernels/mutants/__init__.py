"""Mutants of the engine bodies made by program, and the data that tells them from the originals."""
