/* Format: how a process shows others that it runs.
 *
 * Its watchdog stores the time into `beat_ns` some ten times a second, as long as it watches anything. A beat that
 * comes much too late ends a pause: the process was stopped (SIGSTOP, a debugger), or did not get a processor. Then the
 * watchdog stores how long the pause was into `pause_ns`, when it ended into `pause_end_ns`, and the beat last. All are
 * by the monotonic clock of the node. A reader may meet a pause half written: it is only told. */
#ifndef GPUCOLL_PROTO_FORMAT_PULSE_H
#define GPUCOLL_PROTO_FORMAT_PULSE_H

#include <stdint.h>

typedef struct gc_pulse {
  uint64_t beat_ns; /* 0: it does not beat yet, or no more */
  uint64_t pause_ns, pause_end_ns;
} gc_pulse;

#endif
