/* tiny -- [FIFO]: the least a supervisor can be: it starts itself as the task, and waits for it.
   tiny [FIFO]: the least a task can be. Its first act is to tell when it began: CLOCK_MONOTONIC in nanoseconds, as
   eight bytes into the FIFO, if one is named. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int supervise(char **argv) {
    int status;
    pid_t task = fork();
    if (task < 0) return 126;
    if (task == 0) {
        argv[1] = argv[0];
        execv(argv[0], argv + 1);
        _exit(127);
    }
    return waitpid(task, &status, 0) == task && WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--") == 0) return supervise(argv);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc < 2) return 0;
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int fifo = open(argv[1], O_WRONLY);
    return fifo < 0 || write(fifo, &ns, sizeof ns) != sizeof ns;
}
