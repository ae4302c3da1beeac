"""The conformance kit: each rule is shown to fail on a double with that fault, and what is right
passes."""
