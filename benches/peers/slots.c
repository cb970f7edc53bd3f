/* The agent and the training command of the slots' benchmark: they sleep, and they say when.
 *
 *   slots agent STAMPS SECONDS     adds an idea; of five in a row one is good
 *   slots train STAMPS SECONDS     prints the loss of the ideas in the tree; gains add up
 *
 * STAMPS gains a line "<what> <begun> <ended> <slot>" per call, nanoseconds of the monotonic clock. A run of a tree without an
 * idea is called `baseline`.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void rest(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&time, &time)) {}
}

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* The first idea that no call has taken. */
static unsigned take(const char *stamps) {
    char path[4096];
    for (unsigned number = 0;; number++) {
        if (snprintf(path, sizeof path, "%s.%u", stamps, number) >= (int)sizeof path) exit(2);
        int taken = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (taken >= 0) return close(taken), number;
    }
}

static void propose(const char *stamps) {
    char path[64];
    unsigned number = take(stamps), good = number / 5 * 2654435761u >> 16;
    snprintf(path, sizeof path, "ideas/%s-%u", number % 5 == good % 5 ? "good" : "bad", number);
    mkdir("ideas", 0777);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%u\n", number) < 0 || fclose(file)) exit(2);
}

/* How many ideas are in the tree. */
static int train(void) {
    int good = 0, bad = 0;
    DIR *folder = opendir("ideas");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        good += !strncmp(entry->d_name, "good-", 5);
        bad += !strncmp(entry->d_name, "bad-", 4);
    }
    printf("loss: %d\n", 1000 - good + bad);
    if (fflush(stdout)) exit(2);
    return good + bad;
}

int main(int count, char **arguments) {
    long long begun = now();
    char line[128];
    const char *what;
    if (count != 4) return 2;
    what = arguments[1];
    rest(atof(arguments[3]));
    if (!strcmp(what, "agent")) propose(arguments[2]);
    else if (!train()) what = "baseline";
    int stamps = open(arguments[2], O_WRONLY | O_APPEND | O_CREAT, 0644);
    int length = snprintf(line, sizeof line, "%s %lld %lld %s\n", what, begun, now(), variable("AR_SLOT", "0"));
    return write(stamps, line, length) != length;
}
