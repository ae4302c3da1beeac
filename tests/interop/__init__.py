"""The interop matrix: every producer x every consumer, on really installed libraries.

``cases``      what is exchanged: element types and layouts, with the bytes they must arrive as
``producers``  one adapter per library that gives arrays away
``consumers``  one adapter per library that takes arrays in
``functions``  how functions ask and what they hold, release by release
``model``      what must come out of each cell, written by hand from documented limits
``refusals``   every refusal that is accepted, each with its documented reason
``cells``      one exchange: made, looked at, dropped on either side, looked at again
``faults``     six planted faults; each must turn cells red
``worker``     runs batches of cells in a child process (some bare exchanges kill it)
``runner``     starts workers, restarts them after a crash, collects the results
``report``     the rows of an environment in docs/results
``outcomes``   what the engine of ``inspect`` makes of more arrays, beside the record
"""
