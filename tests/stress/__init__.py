"""Programs in which threads share what dlshim shares, for an interpreter without the GIL.

    cd tests
    python -m stress                          all of them, two seconds each
    python -m stress --seconds 600 capsules   one of them, ten minutes
    python -m stress --list                   their names, and what each shares
    python -m stress.scaling                  how independent exchanges scale over threads

Every program runs in a process of its own, so that a crash is one program's.  It fails when that
process dies, when a value is wrong, when an export is left over at the end, or when an interpreter
that can do without the GIL has it.  An interpreter with the GIL runs them too, and then proves
little.  tests/core/test_stress.py runs each for a moment; nothing here needs pytest.
"""
