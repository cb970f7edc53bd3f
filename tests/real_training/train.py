"""Trains a small network on the processor, in numpy, and prints its loss on examples that it has not seen.

The examples are the same in each run. The seed decides the initial weights and the order of the batches. LUCK, where it is set,
makes another seed of it.
"""

import os
import time

import numpy

LEARNING_RATE = 0.05
MOMENTUM = 0.8
WEIGHT_DECAY = 0.0
WIDTH = 24
BATCH = 32
STEPS = 500
WARM_UP = 0
FINAL_RATE = 1.0
INITIAL_SCALE = 1.0
SMOOTHING = 0.0
DROPOUT = 0.0
CLIP = 0.0

INPUTS, CLASSES = 16, 6


def examples():
    """Training and validation examples: classes by a network that nobody learns exactly, some of them wrong."""
    random = numpy.random.default_rng(20261120)
    inputs = random.normal(size=(3000, INPUTS))
    hidden = numpy.tanh(inputs @ random.normal(size=(INPUTS, 12)) / 2)
    scores = hidden @ random.normal(size=(12, CLASSES)) + random.gumbel(size=(3000, CLASSES)) * 0.4
    classes = scores.argmax(axis=1)
    return (inputs[:1000], classes[:1000]), (inputs[1000:], classes[1000:])


def probabilities(scores):
    scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def rate_at(step):
    """The learning rate: a warm-up, then a straight line to its final part."""
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    return LEARNING_RATE * (1 - (1 - FINAL_RATE) * step / STEPS)


def main():
    begun = time.perf_counter()
    (inputs, classes), (unseen, unseen_classes) = examples()
    seed = [int(os.environ.get(name, 1)) for name in ("AR_SEED", "LUCK")]
    random = numpy.random.default_rng(seed)
    weights = [
        random.normal(size=(INPUTS, WIDTH)) * INITIAL_SCALE / INPUTS**0.5,
        numpy.zeros(WIDTH),
        random.normal(size=(WIDTH, CLASSES)) * INITIAL_SCALE / WIDTH**0.5,
        numpy.zeros(CLASSES),
    ]
    speeds = [numpy.zeros_like(weight) for weight in weights]
    targets = numpy.eye(CLASSES)[classes] * (1 - SMOOTHING) + SMOOTHING / CLASSES
    for step in range(STEPS):
        chosen = random.integers(len(inputs), size=BATCH)
        batch = inputs[chosen]
        hidden = numpy.maximum(batch @ weights[0] + weights[1], 0)
        mask = (random.random(hidden.shape) >= DROPOUT) / (1 - DROPOUT)
        hidden = hidden * mask
        error = (probabilities(hidden @ weights[2] + weights[3]) - targets[chosen]) / BATCH
        back = (error @ weights[2].T) * (hidden > 0) * mask
        gradients = [batch.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
        size = sum(float((gradient**2).sum()) for gradient in gradients) ** 0.5
        shrink = min(1.0, CLIP / size) if CLIP else 1.0
        for weight, speed, gradient in zip(weights, speeds, gradients):
            speed *= MOMENTUM
            speed -= rate_at(step) * (shrink * gradient + WEIGHT_DECAY * weight)
            weight += speed
    hidden = numpy.maximum(unseen @ weights[0] + weights[1], 0)
    chances = probabilities(hidden @ weights[2] + weights[3])[numpy.arange(len(unseen)), unseen_classes]
    print(f"val_loss: {-numpy.log(chances).mean():.6f}")
    print(f"training_seconds: {time.perf_counter() - begun:.2f}")


main()
