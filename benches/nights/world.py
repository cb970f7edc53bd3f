"""The model of `benches/night/world.rs`, with the same random numbers: ideas and noise of a night by its number.

The unit is the standard deviation of one run; higher is better. A night that `cargo bench --bench night` plays with the
same seed and number has the same ideas in the same order, and the same noise in each of its runs.
"""

import math

# The share of good ideas, and of those that change nothing.
GOOD, NULL = 0.15, 0.25
# The mean gain of a good idea, and the mean loss of a harmful one.
GAIN, LOSS = 0.8, 1.5
# The runs of a night.
RUNS = 100

MASK = (1 << 64) - 1


class Random:
    """SplitMix64 (Steele, Lea and Flood, 2014)."""

    def __init__(self, state):
        self.state = state

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def uniform(self):
        """Above 0, up to 1."""
        return ((self.next() >> 11) + 1) / (1 << 53)

    def exponential(self):
        return -math.log(self.uniform())

    def normal(self):
        """By Box and Muller."""
        return math.sqrt(-2 * math.log(self.uniform())) * math.cos(math.tau * self.uniform())


class World:
    """The streams of one night, as long as any policy can need them."""

    def __init__(self, seed, number):
        mixed = Random(seed)
        mixed.state = mixed.next() ^ number
        ideas, noise = Random(mixed.next()), Random(mixed.next())
        # What breaks is drawn apart, so that ideas and noise are the same with trouble and without.
        broken = Random(mixed.next())
        self.ideas = [idea(ideas) for _ in range(RUNS)]
        # A run takes one number, and one more where its seed is new.
        self.noise = [noise.normal() for _ in range(2 * RUNS)]
        self.luck = [broken.uniform() for _ in range(RUNS)]


def idea(random):
    """What an idea truly adds."""
    kind, size = random.uniform(), random.exponential()
    if kind <= GOOD:
        return GAIN * size
    return 0.0 if kind <= GOOD + NULL else -LOSS * size
