"""A drill: faults on the owner's rig, and how long it takes until it is safe."""
