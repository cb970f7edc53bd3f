"""The guard: a fast kernel that computes something else is not kept."""
import math
import random
import sys

from kernel import smooth

for count, width in [(1, 1), (5, 5), (100, 1), (100, 7), (1000, 999)]:
    values = [random.uniform(-1, 1) for _ in range(count)]
    found = list(smooth(values, width))
    wanted = [math.fsum(values[start:start + width]) / width for start in range(count - width + 1)]
    if len(found) != len(wanted) or any(abs(a - b) > 1e-9 for a, b in zip(found, wanted)):
        sys.exit(f"{count} values, windows of {width}: the means are wrong")
print("the means are right")
