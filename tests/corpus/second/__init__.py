"""The layer enc0 as another author writes it."""
