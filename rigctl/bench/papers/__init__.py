"""The papers' experiments and claims: a YAML file each, and the judge that reads them."""
