"""What follows for people: recommendation, rule, worth, explanation, doubts, and what would change them."""
