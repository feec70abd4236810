"""What is known of an experiment: its variables, what it is for, what has been seen."""
