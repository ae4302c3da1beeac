"""The command ``python -m dlshim matrix``.

It exchanges small arrays among the array libraries that are installed, bare and
upgraded, each in a child process, and says what failed and what works now.

========================  ===========================================================
``cases``                 the small arrays that are exchanged
``libraries``             which libraries are looked for, and which are here
``capsules``              DLPack capsules through ctypes: made and read independently
``producers``             how each library makes each case
``consumers``             how each library takes an object, and what it then sees
``model``                 the hand-written statement of what should work, with reasons
``worker``                the child process: carries out exchanges, one line for each
``run``                   starts children, survives their death, collects results
``story``                 what is told of the results, as ``blocks``
``view``, ``plain``       draw blocks and progress: with rich, or without
``page``                  the HTML page
``command``               the options
========================  ===========================================================

Only the child processes import array libraries; the library ``dlshim`` itself
never does.
"""
