"""`python -m zluda_rr.hook`: compile the bodies for NVIDIA's driver and for ZLUDA again."""

import os

from .bitcode import regenerate
from .nvptx import main

main()
print(regenerate(os.environ))
