/* Plain C, called by ctypes: it gets a pointer, a length, and knows nothing of Python.
 *
 *   cc -std=c11 -O1 -shared -fPIC -Wall -Wextra kernel_ctypes.c -o kernel_ctypes.so
 *
 * In Python, where a Tensor of dlshim has the address, of host memory in row-major order.  The function cannot
 * see what it points to: say the dtype and the alignment, else it reads behind the array.
 *
 *   library.total.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
 *   library.total.restype = ctypes.c_double
 *
 *   @dlshim.kernel(takes="tensor", dtypes="float32", align=4)
 *   def total(x):
 *       return library.total(x.data_ptr(), x.size)
 */
#include <stddef.h>

double total(const float *x, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

void add_one(float *x, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] += 1;
    }
}
