"""Pure physics: a plant steps in simulated time and knows no protocol."""
