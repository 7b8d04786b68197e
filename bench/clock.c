/* Processor time of all threads of this process in seconds: proc.time() tells milliseconds, some systems only ticks of ten. */
#include <time.h>

void processor_time(double *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  *seconds = (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}
