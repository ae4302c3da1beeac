"""How many elements dlshim::visit shows at addresses that their type can have, and cannot have."""

import visits

odd = memoryview(bytearray(9))[1:]
even = memoryview(bytearray(8))
print(
    visits.visited(even.cast("h"), 0),
    visits.visited(odd, 0),
    visits.visited(odd.cast("h"), 0),
    visits.visited(odd.cast("h"), 8),
)
