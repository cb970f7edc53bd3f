"""The code under study: the only file that an experiment may change."""


def smooth(values, width):
    """The mean of each window of `width` neighbours."""
    return [sum(values[start:start + width]) / width for start in range(len(values) - width + 1)]
