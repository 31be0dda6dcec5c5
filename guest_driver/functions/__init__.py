"""Built-in functions of the host (docs/functions.md), for arrays: shapes, types and leading dimensions are inferred.

Each group is an object of a device, such as `Device.blas`. Methods take device arrays and numpy arrays, also mixed. With
numpy arrays alone a call is one request, and its result is a numpy array (a numpy scalar, if it has no dimensions). With
a device array the function is launched, numpy arrays are copied to the device, and the result is a device array.
"""
