/* The C exchange table that Producer and Tensor offer on their types (DLPack 1.3;
 * reference dlpack-standard 2).  One static table for both. */
#ifndef DLS_MODULE_EXCHANGE_H
#define DLS_MODULE_EXCHANGE_H

#include "abi/dlpack_abi.h"
#include "exchange/producer_object.h"

/* Lives as long as the process; its functions find the module by the object they are
 * given, or by the interpreter that runs. */
extern const dl_exchange_api dls_exchange_table;

/* Put the table on a type of ours under both spellings: a capsule under
 * __dlpack_c_exchange_api__, an int under __c_dlpack_exchange_api__ (DLPack 1.2).  0,
 * or -1 with an exception. */
int dls_exchange_add(dls_state *state, PyTypeObject *type);

/* Let the table's functions know this module's types, and find it in its interpreter.
 * 0, or -1.  forget: before those types go. */
int dls_exchange_register(dls_state *state, PyObject *module);
void dls_exchange_forget(const dls_state *state);

#endif
