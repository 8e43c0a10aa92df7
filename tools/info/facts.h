// What gpucoll-info knows, gathered into one JSON document that is either printed as it is or laid out as text.
//
// Thread safety: none; gather() opens every device of the chosen platform.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace gpucoll::info {

// Members: host (its name), version, open_mpi (its version; none where ompi_info does not run), driver (of NVIDIA;
// none where there is none), build {cuda, cuda_architectures, sanitizers, compiler}, platform {name | problem},
// gpus {count | problem}, devices [...], topology, transports [...], network
// {addresses [...], unused_names [...] of the parameter socket_ifname | problem}, parameters [...], problem (of the
// environment).
nlohmann::ordered_json gather();

std::string as_text(const nlohmann::ordered_json& facts);

}  // namespace gpucoll::info
