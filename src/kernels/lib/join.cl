// One name made of two, which may be macros: JOIN(STORE_, Y_DTYPE) is STORE_f32.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
