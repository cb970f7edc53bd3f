/* The agent and the training command of the loop's benchmark: as short as programs can be, and they say when they were at work.
 *
 *   tool agent STAMPS     sets the next step in train.py
 *   tool train STAMPS     prints the log of the step that train.py holds
 *
 * STAMPS gains a line "<what> <begun> <ended>" per call, nanoseconds of the monotonic clock. Every fifth step is the best so
 * far, the others are worse.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int step_of(const char *path) {
    char head[64];
    FILE *file = fopen(path, "r");
    if (!file || !fgets(head, sizeof head, file)) exit(2);
    fclose(file);
    return atoi(head + strlen("STEP = "));
}

static int calls(const char *path, const char *what) {
    char line[128];
    int count = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) count += !strncmp(line, what, strlen(what));
    fclose(file);
    return count;
}

static void edit(int step) {
    FILE *file = fopen("train.py", "w");
    if (!file) exit(2);
    fprintf(file, "STEP = %d\n", step);
    for (int line = 0; line < 600; line++) fprintf(file, "layer_%03d = make_layer(width=768, heads=12)\n", line);
    if (fclose(file)) exit(2);
}

static void train(int step) {
    double value = step % 5 ? 2.5 + step * 1e-6 : 2.0 - step * 1e-4;
    for (int line = 0; line < 100; line++) printf("step %05d | loss: %.6f | dt: 312.40ms | tok/sec: 1678123\n", line, 3.0);
    printf("---\nval_bpb:          %.6f\nmemory_gb:        44.0\n", value);
    if (fflush(stdout)) exit(2);
}

int main(int count, char **arguments) {
    long long begun = now();
    char line[128];
    if (count != 3) return 2;
    if (!strcmp(arguments[1], "agent")) edit(calls(arguments[2], "agent") + 1);
    else train(step_of("train.py"));
    int stamps = open(arguments[2], O_WRONLY | O_APPEND | O_CREAT, 0644);
    int length = snprintf(line, sizeof line, "%s %lld %lld\n", arguments[1], begun, now());
    return write(stamps, line, length) != length;
}
