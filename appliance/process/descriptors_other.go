//go:build !unix

package process

// Descriptors returns the largest number of file descriptors of this process.
func Descriptors() uint64 { return defaultDescriptors }
