"""Tests of the instrument drivers, their lines and the registry."""
