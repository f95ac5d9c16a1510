/* In place of libunwind in a release binary, which has no tables that it could walk a stack by. The standard library
 * calls it for RUST_BACKTRACE; a panic's message, file and line do not need it. */

struct context;

/* _URC_END_OF_STACK: there is no frame. */
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
