/* The job that every peer runs. Its first act is to look at the clock; then it says so in one line.
 *
 *   tiny FIFO        writes "first NANOSECONDS" (CLOCK_MONOTONIC) and ends with 0
 *   tiny FIFO hold   also starts two processes that move away, writes "hold PID CHILD DAEMON", and waits:
 *                    CHILD has a session of its own (setsid), DAEMON has besides lost its parent (setsid and a second fork).
 *                    USR1 ends it with exit code 7. All three end by themselves after two minutes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void seven(int signal) { (void)signal; _exit(7); }

static pid_t moved(int twice) {
    int ends[2];
    pid_t pid = 0;
    if (pipe(ends) != 0) return 0;
    if (fork() == 0) {
        setsid();
        if (twice && fork() != 0) _exit(0);
        pid = getpid();
        if (write(ends[1], &pid, sizeof pid) != sizeof pid) _exit(1);
        close(0), close(1), close(2), close(ends[0]), close(ends[1]);
        alarm(120);
        for (;;) pause();
    }
    if (read(ends[0], &pid, sizeof pid) != sizeof pid) pid = 0;
    close(ends[0]), close(ends[1]);
    return pid;
}

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc < 2) return 2;
    char line[96];
    int fifo = open(argv[1], O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fifo < 0) return 3;
    int length = snprintf(line, sizeof line, "first %lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(fifo, line, length) != length) return 4;
    if (argc < 3 || strcmp(argv[2], "hold") != 0) return 0;

    signal(SIGUSR1, seven);
    pid_t child = moved(0), daemon = moved(1);
    length = snprintf(line, sizeof line, "hold %d %d %d\n", getpid(), child, daemon);
    if (write(fifo, line, length) != length) return 4;
    close(fifo);
    alarm(120);
    for (;;) pause();
}
