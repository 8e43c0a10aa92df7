// Takes the places of the folders that configure has found, in check.cpp as check_test has it: the test chooses them.
#pragma once

extern char g_plugin_folder[256], g_open_mpi_folder[256];
