"""What every exchange does, written down: the calls, the outcomes, the texts of errors.

A scenario is a fresh type and a few exchanges with it.  What producers and the driver were called
for, what the consumer got, every exception with its causes, and what was learned is one body of
text.  ``recorded/`` keeps the bodies of more than 60 000 scenarios; the test fails where today's
differ, and shows how.  A change of behaviour that is wanted is recorded anew::

    python tests/transcript --write              # all groups, or those named
    python tests/transcript --show GROUP NAME    # scenarios whose name holds NAME, as they run now

``host`` enumerates the scenarios of host memory, ``off_host`` those of a fake driver.
``witness`` records what ``python -m dlshim`` says as JSON, of the objects of ``stock``.
``words`` is the one table for what may be spelled otherwise without being another behaviour.
"""
