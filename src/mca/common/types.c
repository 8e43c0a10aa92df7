/* MPI's predefined types and operations in the engine's terms. Fortran types have the size that the compiler chose
 * when Open MPI was built, so they are looked up by kind and size. */
#include "gpucoll/gpucoll.h"
#include "mca/coll/module.h"

/* Kinds that are resolved by size; above all gpucollDataType_t. */
enum { kInteger = 64, kUnsigned, kReal, kPairOfIntegers, kPairOfReals };

/* By OMPI_OP_BASE_TYPE_*; value + 1, so that 0 is "the engine has no such type". Missing: long double, its complex
 * and its pair. */
#define IS(value) ((value) + 1)
static const int8_t kTypes[OMPI_OP_BASE_TYPE_MAX] = {
    [OMPI_OP_BASE_TYPE_INT8_T] = IS(gpucollInt8),
    [OMPI_OP_BASE_TYPE_UINT8_T] = IS(gpucollUint8),
    [OMPI_OP_BASE_TYPE_INT16_T] = IS(gpucollInt16),
    [OMPI_OP_BASE_TYPE_UINT16_T] = IS(gpucollUint16),
    [OMPI_OP_BASE_TYPE_INT32_T] = IS(gpucollInt32),
    [OMPI_OP_BASE_TYPE_UINT32_T] = IS(gpucollUint32),
    [OMPI_OP_BASE_TYPE_INT64_T] = IS(gpucollInt64),
    [OMPI_OP_BASE_TYPE_UINT64_T] = IS(gpucollUint64),
    [OMPI_OP_BASE_TYPE_LONG] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_UNSIGNED_LONG] = IS(kUnsigned),
    [OMPI_OP_BASE_TYPE_WCHAR] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_BYTE] = IS(gpucollUint8),
    [OMPI_OP_BASE_TYPE_BOOL] = IS(kUnsigned),
    [OMPI_OP_BASE_TYPE_LOGICAL] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER1] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER2] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER4] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER8] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_INTEGER16] = IS(kInteger),
    [OMPI_OP_BASE_TYPE_FLOAT] = IS(kReal),
    [OMPI_OP_BASE_TYPE_DOUBLE] = IS(kReal),
    [OMPI_OP_BASE_TYPE_REAL] = IS(kReal),
    [OMPI_OP_BASE_TYPE_REAL4] = IS(kReal),
    [OMPI_OP_BASE_TYPE_REAL8] = IS(kReal),
    [OMPI_OP_BASE_TYPE_DOUBLE_PRECISION] = IS(kReal),
    [OMPI_OP_BASE_TYPE_C_FLOAT_COMPLEX] = IS(gpucollComplex64),
    [OMPI_OP_BASE_TYPE_C_DOUBLE_COMPLEX] = IS(gpucollComplex128),
    [OMPI_OP_BASE_TYPE_2REAL] = IS(kPairOfReals),
    [OMPI_OP_BASE_TYPE_2DOUBLE_PRECISION] = IS(kPairOfReals),
    [OMPI_OP_BASE_TYPE_2INTEGER] = IS(kPairOfIntegers),
    [OMPI_OP_BASE_TYPE_FLOAT_INT] = IS(gpucollFloatInt),
    [OMPI_OP_BASE_TYPE_DOUBLE_INT] = IS(gpucollDoubleInt),
    [OMPI_OP_BASE_TYPE_LONG_INT] = IS(gpucollLongInt),
    [OMPI_OP_BASE_TYPE_2INT] = IS(gpucollIntInt),
    [OMPI_OP_BASE_TYPE_SHORT_INT] = IS(gpucollShortInt),
};

static int integer_of(size_t size) {
  return size == 1 ? gpucollInt8 : size == 2 ? gpucollInt16 : size == 4 ? gpucollInt32 : size == 8 ? gpucollInt64 : -1;
}
static int unsigned_of(size_t size) {
  return size == 1   ? gpucollUint8
         : size == 2 ? gpucollUint16
         : size == 4 ? gpucollUint32
         : size == 8 ? gpucollUint64
                     : -1;
}
static int real_of(size_t size) { return size == 4 ? gpucollFloat32 : size == 8 ? gpucollFloat64 : -1; }

int gcm_engine_type(const gcm_type *type) {
  if (!ompi_datatype_is_predefined(type) || type->id < 0 || type->id >= OMPI_DATATYPE_MAX_PREDEFINED) return -1;
  const int base = ompi_op_ddt_map[type->id];
  if (base < 0 || base >= OMPI_OP_BASE_TYPE_MAX) return -1;
  const size_t size = type->super.size;
  const int kind = kTypes[base] - 1;
  switch (kind) {
    case kInteger: return integer_of(size);
    case kUnsigned: return unsigned_of(size);
    case kReal: return real_of(size);
    case kPairOfIntegers: return size == 8 ? gpucollIntInt : -1;
    case kPairOfReals: return size == 8 ? gpucollFloatFloat : size == 16 ? gpucollDoubleDouble : -1;
    default: return kind;
  }
}

int gcm_engine_op(gcm_op *op) {
  if (!ompi_op_is_intrinsic(op)) return -1;
  switch (op->o_f_to_c_index) {
    case OMPI_OP_BASE_FORTRAN_SUM: return gpucollSum;
    case OMPI_OP_BASE_FORTRAN_PROD: return gpucollProd;
    case OMPI_OP_BASE_FORTRAN_MAX: return gpucollMax;
    case OMPI_OP_BASE_FORTRAN_MIN: return gpucollMin;
    case OMPI_OP_BASE_FORTRAN_BAND: return gpucollBand;
    case OMPI_OP_BASE_FORTRAN_BOR: return gpucollBor;
    case OMPI_OP_BASE_FORTRAN_BXOR: return gpucollBxor;
    case OMPI_OP_BASE_FORTRAN_LAND: return gpucollLand;
    case OMPI_OP_BASE_FORTRAN_LOR: return gpucollLor;
    case OMPI_OP_BASE_FORTRAN_LXOR: return gpucollLxor;
    case OMPI_OP_BASE_FORTRAN_MAXLOC: return gpucollMaxloc;
    case OMPI_OP_BASE_FORTRAN_MINLOC: return gpucollMinloc;
    default: return -1;
  }
}
