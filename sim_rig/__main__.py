"""`python -m sim_rig`."""

import sys

from sim_rig.cli import main

sys.exit(main(sys.argv[1:]))
