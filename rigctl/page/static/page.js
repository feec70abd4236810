"use strict";
// Keeps the page up to date, and draws series one can point into. Without it the page stays as it was sent.
