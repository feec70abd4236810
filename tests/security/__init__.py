"""What keeps strangers out: the lock of what is installed, and what is known to be weak."""
