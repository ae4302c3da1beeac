"""Fake producers and consumers, and the capsules they pass, made with ctypes alone.

``capsules``   the two managed structs, capsules with every field settable, and what a
               consumer can do to a capsule.
``producers``  one class per edition of the protocol and per peculiarity of real producers.
``consumers``  one function per way in which real consumers ask.
``older``      objects that speak only an older protocol.
``scenarios``  whole exchanges that several tests repeat under different strain.
``steps``      every protocol in every kind of export and with every option, one call each.
``delegating`` a producer that nothing but dlshim can make leak.
``faults``     the same while Python's own allocations fail, in a child process.

None of them imports an array library, and none but the last four dlshim, so that they stay an
independent witness.
"""
