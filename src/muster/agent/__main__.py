"""`python -m muster.agent`: what `muster agent` becomes."""

import sys

from muster.agent.command import main

sys.exit(main())
