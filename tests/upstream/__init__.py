"""The DLPack suites that NumPy and pyarrow ship, run with every exchanged object upgraded first.

``adapter``     loads an installed test module with dlshim put into every exchange.
``amendments``  the few expectations that contradict dlshim's design, each with its reason.

There is no fallback: what dlshim refuses, the test sees refused. Every test runs twice, once as it
comes and once with handing on switched off, so that every capsule is a translated one.
"""
