"""For all tests: decisions to the same bits as the command line makes them."""

from rigctl.campaign.algebra import keep_to_one_thread

keep_to_one_thread()  # before anything loads numpy, as in `rigctl.console.cli.main`
