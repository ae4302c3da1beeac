"""Events and streams of exchanges are made once for each device, on the driver sys.argv[1]."""

import sys

import dlshim
import drivers
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors

drv = drivers.load_any(sys.argv[1])
drv.start()
vendor = vendors.of(drv)
for device in (0, 0, 1, 1, 0):
    drv.make_current(0)
    p, s = drv.stream_new(device, False), drv.stream_new(device, False)
    x = fake.NoKw(drv, p, device=device)
    for options in ({}, {"device": "cpu"}):
        upgraded = dlshim.upgrade(x, producer_stream=p, **options)
        caps.take(upgraded.__dlpack__(stream=s)).release()
entries = drv.entries()
for name, flags in ((vendor.create_event, "2"), (vendor.create_stream, "1")):
    places = [n for n, entry in enumerate(entries) if entry.name == name]
    assert [entries[at].args["flags"] for at in places] == [flags] * 2, (name, drv.log())
    for at in places if drv.has(vendor.exchange_mode) else ():
        around = [entries[at - 1], entries[at + 1]]
        assert {entry.name for entry in around} == {vendor.exchange_mode}, drv.log()
        assert [entry.args["mode"] for entry in around] == ["2", "0"]
assert drv.live_events() == 2 and vendor.destroy_event not in drv.calls()
