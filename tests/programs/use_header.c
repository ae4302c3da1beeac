/* A use of each function of dlshim.h: it compiles without a warning as C and as C++. */
#include <dlshim.h>
PyObject *use(PyObject *);
PyObject *use(PyObject *obj) {
    dlshim_request want = DLSHIM_REQUEST_INIT;
    dlshim_dtype dtypes[2] = {{2, 32, 1}, {0, 64, 1}};
    dlshim_stream stream = {DLSHIM_STREAM, 1};
    dlshim_view view;
    struct DLManagedTensorVersioned *tensor;
    want.dtypes = dtypes;
    want.dtype_count = 2;
    want.ranks = DLSHIM_RANKS(1, 3) | DLSHIM_RANK(0) | DLSHIM_RANK(63);
    want.stream = stream;
    if (dlshim_borrow(obj, &want, &view) < 0) {
        return NULL;
    }
    dlshim_borrow_end(&view);
    if (dlshim_import(obj, NULL, &tensor) < 0) {
        return NULL;
    }
    dlshim_release(tensor);
    return dlshim_export_array(&view.array, DLSHIM_READ_ONLY, NULL, NULL, &stream);
}
