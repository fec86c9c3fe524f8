#include "flex/cpu/instantiate.h"

FLEX_INSTANTIATE_SCORE(flex::AdditiveBias)
