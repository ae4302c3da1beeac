/* DLPack's C exchange API (the C table) as Producer and Tensor offer it (DLPack 1.3).
 * There is one constant C table for both types and all imports.  Its functions find the
 * module by the object that they are given, or by the interpreter that runs.  Called by
 * module/module.  The GIL is held. */
#pragma once

#include "exchange/objects.h"

/* The C tables of our own types and of classes that dlshim.producer changed, where the
 * home is dlshim itself: outputs are Tensors.  The C tables of other homes are made of
 * them (ctable/home_tables). */
DLS_EXTERN const dl_exchange_api dls_ctables[2];

/* managed_tensor_to_py_object_no_sync of these: *out becomes a new Tensor.  0, or -1
 * with an exception and nothing taken. */
int dls_ctable_to_python(dl_managed_tensor_versioned *managed, void **out);

/* managed_tensor_allocator of these (ctable_allocator.c): new memory with the
 * prototype's device, dtype and shape, not initialised, the caller's to delete.  Any
 * thread, with or without the GIL.  0, or -1 after set_error, which may be NULL. */
int dls_ctable_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                        void *context,
                        void (*set_error)(void *context, const char *kind,
                                          const char *message));

/* Put the C table on the type `type` under both spellings: a capsule as
 * __dlpack_c_exchange_api__, an int as __c_dlpack_exchange_api__ (DLPack 1.2).  Then
 * the type is frozen.  0, or -1 with an exception. */
int dls_ctable_add(dls_state *state, PyTypeObject *type, const dl_exchange_api *table);

/* At the end of an import: the functions of the C table know the types of this module
 * from now on, and find the module in its interpreter (dls_module_register).  0, or -1
 * with an exception. */
int dls_ctable_register(dls_state *state, PyObject *module, bool alone);
/* Before the types of this module are freed. */
void dls_ctable_forget(const dls_state *state);

/* The borrowed view that a Producer gives through the C table (ctable_view.c): describe
 * the Producer's memory in *out.  What it points to lives until the Producer goes, or
 * the thread has borrowed DLS_BORROWED_ROOM other views of it (T13).  A view has no
 * flags, so the rules for legacy consumers hold (T8).  0, or -1 with an exception. */
int dls_ctable_view(dls_producer *self, dl_tensor *out);
