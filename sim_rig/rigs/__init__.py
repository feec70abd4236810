"""Whole rigs: a plant, its instruments, and the wires between them."""
