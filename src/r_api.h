// R's headers, and what every C file needs of them.
#pragma once
#define R_NO_REMAP
#include <stdint.h>
#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>
#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>
