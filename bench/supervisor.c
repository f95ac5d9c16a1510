/* supervisor PROGRAM [ARGUMENT...]: the least a supervisor can be: it starts a program, and waits for it. */
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int status;
    pid_t task = argc < 2 ? -1 : fork();
    if (task < 0) return 126;
    if (task == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    return waitpid(task, &status, 0) == task && WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
