"""`python -m zluda_rr.hook`: compile the bodies for NVIDIA's driver again."""

from .nvptx import main

main()
