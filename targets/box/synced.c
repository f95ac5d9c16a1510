/* Tells the kernel what a time service tells it when it has set the clock: that it is right now. */
#include <stdio.h>
#include <sys/timex.h>

int main(void) {
    struct timex clock = {.modes = ADJ_STATUS | ADJ_MAXERROR | ADJ_ESTERROR, .status = STA_PLL};
    if (adjtimex(&clock) >= 0 && !(clock.status & STA_UNSYNC)) return 0;
    perror("adjtimex");
    return 1;
}
