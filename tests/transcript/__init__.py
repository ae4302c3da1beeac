"""What every exchange does, written down: the calls, the outcomes, the texts of errors.

A scenario is a fresh type and a few exchanges with it.  What producers and the driver were called
for, what the consumer got, every exception with its causes, and what was learned is one body of
text.  ``recorded/`` has a text file for each group of scenarios, each body below the names of the
scenarios that have it; the test fails where today's differ, and shows how.  A change of behaviour
that is wanted is recorded anew, and read in git's difference before it is committed::

    python tests/transcript --write              # all groups, or those named
    python tests/transcript --show NAME GROUP    # scenarios whose name holds NAME, as they run now

``host`` and ``older`` have the scenarios of host memory, ``off_host`` those of a fake driver, each
group as a function and its axes; ``pairs`` draws some of their product, so that a person can read
what differs.  It is a witness of moves, and judges nothing: what an exchange has to do is said by
tests/core and tests/device.  ``witness`` records what ``python -m dlshim`` says as JSON, of the
objects of ``stock``.  ``words`` is the one table for what may be spelled otherwise without being
another behaviour.
"""
