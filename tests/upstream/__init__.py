"""The DLPack suites of other projects, run with every exchanged object upgraded first.

``adapter``     loads an installed test module with dlshim put into every exchange.
``amendments``  the few expectations that contradict dlshim's design, each with its reason, for the
                two suites that run in this process: NumPy's and pyarrow's.
``suites.toml`` the other suites: where their files are from, and which tests cannot pass upgraded.
``suites``      gets their files and runs each three times, in processes of its own: bare, upgraded,
                and upgraded with handing on switched off, so that every capsule is translated.
``plugin``      what such a process does to the suite.
``report``      collects the figures for the manual.

There is no fallback: what dlshim refuses, the test sees refused.
"""
