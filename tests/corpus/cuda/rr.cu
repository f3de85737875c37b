// Both layers in one module, as the original's modules hold several entries.
#include "enc0.cu"
#include "enc1.cu"
