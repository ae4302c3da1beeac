"""The command ``python -m dlshim matrix``.

It exchanges small arrays among the array libraries that are installed, bare and
upgraded, each in a child process, and says what failed and what works now.

===============  ===========================================================================
``libraries``    the small arrays, how each library makes, takes and shows them; raw capsules
``run``          what should work, with reasons; starts children, survives their death, collects
                 results; is the child
``command``      the options, what is told of the results as tables of ``dlshim.commands``, and
                 the HTML page
===============  ===========================================================================

Only the child processes import array libraries; the library ``dlshim`` itself
never does.
"""
