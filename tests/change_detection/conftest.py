"""Lets the tests of this folder import `change_references`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
