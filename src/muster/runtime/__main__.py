"""`python -m muster.runtime`: train a script on this node with any number of workers."""

import sys

from muster.runtime.launch.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
