"""`python -m gnnhet`."""

import sys

from gnnhet.cli import main

sys.exit(main())
