"""Problems whose truth is known."""
