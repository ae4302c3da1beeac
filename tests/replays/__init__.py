"""Replays: known cases of failing exchanges, each shown bare and then upgraded.

``replays.toml``  the table of the cases; the manual prints it
``running``       how a replay says which libraries it needs, and how it runs apart
``table``         reads the table
``report``        writes docs/results from what the sessions left in build/results

A replay has two halves wherever it makes sense.  The bare half shows the fault without dlshim;
where the fault ends the process, it runs in a child process.  The upgraded half shows that the cure
holds.
"""
