package process

// defaultDescriptors is the usual limit of file descriptors, for systems without RLIMIT_NOFILE.
const defaultDescriptors = 1024
