"""Readings and prices to money: what a trial cost, what no trial used, and which readings can be believed. Pure."""
