"""What the kit finds in a right producer and a right consumer where dlshim is not installed."""

import json
import sys

sys.modules["dlshim"] = None
from dlshim_testing import check_consumer, check_producer  # noqa: E402
from kit import wrong_consumers, wrong_producers  # noqa: E402

told = []
for report in (check_producer(wrong_producers.right), check_consumer(wrong_consumers.right)):
    told += [(each.check, each.status, each.evidence) for each in report.findings]
print(json.dumps(told))
