/* What control.c wants of a vendor's front.  Handles are cookies, not addresses: wider than an
 * int, never to be followed, and checked against tables. */
#ifndef FM_FRONT_H
#define FM_FRONT_H

#include "model.h"

/* Make the driver usable as the library that owns the arrays does: initialised, every device's
 * domain active.  0, or the vendor's error. */
int front_start(void);
/* A new case for the front's own state, after the model's. */
void front_reset(bool hard);

fm_domain *front_domain_of(int device); /* NULL: no such device */
fm_domain *front_domain(uintptr_t handle); /* dies for an unknown one */
uintptr_t front_domain_handle(const fm_domain *domain);

/* The reserved handles mean those of `domain`; dies for an unknown one. */
fm_stream *front_stream(uintptr_t handle, fm_domain *domain);
uintptr_t front_stream_handle(const fm_stream *stream);

int front_error(fm_status status);

/* The option's old value; dies for an unknown name. */
int front_option(const char *name, int value);

#endif
