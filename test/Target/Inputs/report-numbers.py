"""Prints the numbers of the reports on stdin, a line for each schedule and each worker.

usage: report-numbers.py

The line of a schedule has numbers of the whole step. A line of a worker has the
numbers that reports list by worker, in the order of their fields.
"""

import json
import sys

WHOLE = ("makespan_ps", "span_ps", "messages", "copies")
EXPOSED = "exposed_communication_ps"


def by_worker(report, workers):
    """The lists with an element for each worker, in the order of the report."""
    for value in report.values():
        if isinstance(value, dict):
            yield from by_worker(value, workers)
        elif isinstance(value, list) and len(value) == workers:
            yield value


for report in json.load(sys.stdin):
    execution = report["execution"]
    path = execution.pop("critical_path")
    numbers = [f"{name}={execution[name]}" for name in (*WHOLE, EXPOSED)]
    numbers += [f"slots={report['table']['slots']}", f"critical_path={'-'.join(path)}"]
    print(report["schedule"], *numbers)
    columns = list(by_worker(report, report["workers"]))
    for worker, row in enumerate(zip(*columns)):
        print(worker, *row)
