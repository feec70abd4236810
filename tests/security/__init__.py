"""What keeps strangers out: the lock of what is installed, what is known to be weak, and what bandit finds."""
