/* Plain C, called by ctypes: it gets a pointer, a length, and knows nothing of Python.
 *
 *   cc -std=c11 -O1 -shared -fPIC -Wall -Wextra kernel_ctypes.c -o kernel_ctypes.so
 *
 * In Python, where a Tensor of dlshim has the address:
 *
 *   @dlshim.kernel(takes="tensor", order="C")
 *   def total(x): return library.total(x.data_ptr(), x.size)
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
