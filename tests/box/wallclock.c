/* wallclock [SECONDS]: sets the wall clock to so many seconds since 1970, or prints it. Debian's busybox for 32-bit
   ARM cannot: its times end in 2038. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    struct timespec now = {0};
    if (argc > 1) {
        now.tv_sec = strtoll(argv[1], 0, 10);
        return clock_settime(CLOCK_REALTIME, &now) ? 1 : 0;
    }
    return clock_gettime(CLOCK_REALTIME, &now) || printf("%lld\n", (long long)now.tv_sec) < 0;
}
