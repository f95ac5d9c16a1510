/* What a release binary has in place of parts of the libraries, because all that they would bring is never used. */

#include <stddef.h>
#include <sys/prctl.h>

struct context;
struct tm;

/* libunwind, 22 KB: there are no tables that it could walk a stack by. The standard library calls it for
 * RUST_BACKTRACE; a panic's message, file and line do not need it. 5 is _URC_END_OF_STACK: there is no frame. */
int _Unwind_Backtrace(int (*each)(struct context *, void *), void *argument)
{
	(void)each, (void)argument;
	return 5;
}

unsigned long _Unwind_GetIP(struct context *context)
{
	(void)context;
	return 0;
}

/* How ARM reads the same; 1 is _UVRSR_NOT_IMPLEMENTED. */
int _Unwind_VRS_Get(struct context *context, int class, unsigned number, int representation, void *value)
{
	(void)context, (void)class, (void)number, (void)representation, (void)value;
	return 1;
}

/* printf, for the path of another thread's name; the standard library names only the thread that it is in. */
int pthread_setname_np(void *self, const char *name)
{
	(void)self;
	return prctl(PR_SET_NAME, name);
}

/* Time zones and printf, for SQLite's CURRENT_TIMESTAMP, which no statement has; every time comes from model/. */
size_t strftime(char *text, size_t size, const char *format, const struct tm *time)
{
	(void)format, (void)time;
	if (size > 0)
		*text = 0;
	return 0;
}
