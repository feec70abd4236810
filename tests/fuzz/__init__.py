"""Nonsense for every parser: what instruments answer, configurations, requests to the control socket.

`python -m tests.fuzz drivers|yaml|socket [--count N] [--seed S] [--jobs J]`; a short form is among the tests. All is
made of real answers, files and requests, changed in a few places; a block that finds something is run again alone by
`--block N`. Only errors of the tree may come of it, and each answer in a bounded number of steps.
"""
