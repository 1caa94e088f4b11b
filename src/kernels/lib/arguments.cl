// Structs that are a kernel's arguments and whose arrays are read at indices that are no constants. Some drivers cannot
// (COPIES_STRUCTS): there a work-item reads a copy. Elsewhere a copy would cost.
//   __kernel void k(Table STRUCT_ARGUMENT(table)) {
//     COPY_STRUCT(Table, table)
#ifdef COPIES_STRUCTS
#define STRUCT_ARGUMENT(name) name##_given
#define COPY_STRUCT(T, name) const T name = name##_given;
#else
#define STRUCT_ARGUMENT(name) name
#define COPY_STRUCT(T, name)
#endif
