"""Logs as training leaves them: a progress bar that overwrites its line, step lines between, a summary where it is wanted."""

PLAIN = "a progress bar"
SINGLE = "a progress bar, no line feed"
COLOURED = "a coloured progress bar"
REPEATED = "a progress bar, the number on every step line"
SUMMARY = "val_bpb:          1.834200{0}training_seconds: 300.1{0}peak_vram_mb:     5401.7{0}"
NUMBER = "1.834200"


def bar(kind, step):
    """One state of the bar."""
    done = step % 1000
    drawn = "█" * (done // 50) + "░" * (20 - done // 50)
    told = f"{done // 60:02d}:{done % 60:02d}, {30 + done % 7}.{done % 10}it/s, loss={2 + done / 1000:.4f}"
    if kind == COLOURED:
        return f"\x1b[2K\r\x1b[32m{done / 10:5.1f}%\x1b[0m|\x1b[1;34m{drawn}\x1b[0m| \x1b[36m{done}/1000\x1b[0m [\x1b[33m{told}\x1b[0m]"
    return f"\r{done / 10:5.1f}%|{drawn}| {done}/1000 [{told}, lr={1e-3 * (1 - done / 1000):.2e}]"


def block(kind, steps=10_000):
    """About a megabyte of progress, whole lines."""
    out = []
    for step in range(steps):
        out.append(bar(kind, step))
        if step % 50 == 49 and kind != SINGLE:
            out.append(f"\nstep {step} | train_loss {2 + step / 1000:.6f} | tokens/s {100_000 + step}\n")
            if kind == REPEATED:
                out.append(f"val_bpb: {3 + step / 1000:.6f}\n")
    return "".join(out).encode() + line_break(kind)


def line_break(kind):
    return b"\r" if kind == SINGLE else b"\n"


def make(path, kind, size, place, summary=SUMMARY):
    """Writes a log of about `size` bytes with its summary at `place`, from 0, the start, to 1, the end."""
    progress, told = block(kind), summary.format(line_break(kind).decode()).encode()
    blocks = max(1, size // len(progress))
    before = round(blocks * place)
    with path.open("wb") as log:
        for number in range(blocks):
            if number == before:
                log.write(told)
            log.write(progress)
        if before == blocks:
            log.write(told)
