"""Every cure that a message names, typed on objects of real libraries, and what it changes."""
