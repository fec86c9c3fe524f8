#include "flex/instantiate.h"

FLEX_INSTANTIATE_SCORE(flex::AdditiveBias)
