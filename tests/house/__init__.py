"""How the house is measured."""
