"""Runs a command, interrupts it after a second and a half, and prints its exit status. Its standard
input never ends.

Usage: interrupt.py SIGNAL COMMAND...
"""

import signal
import subprocess
import sys
import time

process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
time.sleep(1.5)
process.send_signal(signal.Signals[sys.argv[1]])
print("exit status", process.wait(timeout=60))
