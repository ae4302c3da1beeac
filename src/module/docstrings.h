/* Docstrings of the two methods that both module/producer and module/tensor_type have.
 */
#ifndef DLS_MODULE_DOCSTRINGS_H
#define DLS_MODULE_DOCSTRINGS_H

#define DLS_DOC_DLPACK                                                                 \
    "__dlpack__($self, stream=None, *, max_version=None, dl_device=None, copy=None)\n" \
    "--\n\n"                                                                           \
    "Export a fresh capsule (array API, __dlpack__).\n\n"                              \
    "max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or major " \
    "0 a legacy\n'dltensor'.  BufferError when the data cannot be given so, "          \
    "CopyRequiredError when\ncopy=False and a copy is needed."
#define DLS_DOC_DLPACK_DEVICE             \
    "__dlpack_device__($self, /)\n--\n\n" \
    "(device_type, device_id) that an export will say, plain ints."

#endif
