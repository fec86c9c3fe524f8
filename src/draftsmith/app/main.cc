#include "draftsmith/app/commands.h"

int main(int argc, char** argv) { return draftsmith::run_program(argc, argv); }
